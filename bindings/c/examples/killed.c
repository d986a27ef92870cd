/* A reader that is killed: its writer hears of it, though it is asleep. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

int main(void) {
    weir_handle *to, *from;
    check(weir_records_handles(NULL, &to, &from));
    pid_t child = fork();
    if (child == 0) {
        /* It opens its end, takes ten records, and is killed as if by the kernel. */
        weir_record_reader *reader;
        weir_handle_free(to);
        check(weir_record_reader_open(from, NULL, &reader));
        for (int number = 0; number < 10; number++) {
            char record[1000];
            size_t count;
            check(weir_receive(reader, record, sizeof record, WEIR_FOREVER, &count));
        }
        kill(getpid(), SIGKILL);
    }
    weir_handle_free(from);

    weir_record_writer *writer;
    check(weir_record_writer_open(to, NULL, &writer));
    weir_handle_free(to);
    char record[1000];
    memset(record, 'x', sizeof record);
    weir_status status;
    /* Once the pipe is full this waits, until the reader is gone. */
    do
        status = weir_send(writer, record, sizeof record, WEIR_FOREVER);
    while (status == WEIR_OK);

    weir_ending ending;
    printf("%s: %s\n", weir_status_name(status), weir_error_message());
    check(weir_record_writer_ending(writer, &ending));
    printf("it has %s\n", ending == WEIR_HAS_DIED ? "died" : "closed");
    weir_record_writer_free(writer);
    waitpid(child, NULL, 0);
    return 0;
}
