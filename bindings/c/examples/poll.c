/* An end in poll(), beside a descriptor of another kind. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
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
    int other[2];
    weir_handle *to, *from;
    check(weir_records_handles(NULL, &to, &from));
    if (pipe(other) != 0)
        return 1;
    if (fork() == 0) {
        weir_record_writer *writer;
        weir_handle_free(from);
        check(weir_record_writer_open(to, NULL, &writer));
        weir_handle_free(to);
        check(weir_send(writer, "over weir", 9, WEIR_FOREVER));
        if (write(other[1], "over a pipe", 11) != 11)
            return 1;
        weir_record_writer_free(writer);
        return 0;
    }
    weir_handle_free(to);
    close(other[1]);

    weir_record_reader *reader;
    check(weir_record_reader_open(from, NULL, &reader));
    weir_handle_free(from);
    struct pollfd ready[2];
    check(weir_record_reader_descriptor(reader, &ready[0].fd));
    ready[1].fd = other[0];
    ready[0].events = ready[1].events = POLLIN;
    int records = 0, ends = 0;
    char text[64];
    while (ends < 2) {
        if (poll(ready, 2, -1) < 0)
            return 1;
        if (ready[0].revents) {
            /* Receives until there is nothing: only that makes the descriptor wait for what comes next. */
            size_t count;
            weir_status status;
            while ((status = weir_receive(reader, text, sizeof text, 0, &count)) == WEIR_OK)
                records++;
            if (status == WEIR_CLOSED) {
                ready[0].fd = -1;
                ends++;
            } else if (status != WEIR_WOULD_BLOCK) {
                check(status);
            }
        }
        if (ready[1].revents && read(other[0], text, sizeof text) <= 0) {
            ready[1].fd = -1;
            ends++;
        }
    }
    printf("%d record and %d ends\n", records, ends);
    weir_record_reader_free(reader);
    close(other[0]);
    wait(NULL);
    return 0;
}
