/* Two processes and a pipe of records: a child measures, its parent adds up. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

struct reading {
    double value;
    long sensor;
};

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

static void measure(weir_handle *handle) {
    weir_record_writer *writer;
    check(weir_record_writer_open(handle, NULL, &writer));
    for (long number = 0; number < 1000; number++) {
        struct reading reading = { (double)number, number % 4 };
        check(weir_send(writer, &reading, sizeof reading, WEIR_FOREVER));
    }
    weir_record_writer_free(writer);
}

int main(void) {
    /* A child inherits handles, and opens its end itself. */
    weir_handle *to, *from;
    check(weir_records_handles(NULL, &to, &from));
    if (fork() == 0) {
        weir_handle_free(from);
        measure(to);
        weir_handle_free(to);
        return 0;
    }
    weir_handle_free(to);

    weir_record_reader *reader;
    check(weir_record_reader_open(from, NULL, &reader));
    weir_handle_free(from);
    struct reading reading;
    size_t count;
    double sum = 0;
    weir_status status;
    while ((status = weir_receive(reader, &reading, sizeof reading, WEIR_FOREVER, &count)) == WEIR_OK)
        sum += reading.value;
    if (status != WEIR_CLOSED)
        check(status);

    weir_account account;
    check(weir_record_reader_account(reader, &account));
    printf("%d readings, their sum is %g\n", (int)account.records, sum);
    weir_record_reader_free(reader);
    wait(NULL);
    return 0;
}
