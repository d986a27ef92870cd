/* Large arrays without a copy, to a program that is executed: it gets its end as a text. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

enum { NUMBERS = 100000, ARRAYS = 20 };

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

static int add_up(const char *text) {
    weir_handle *handle;
    weir_record_reader *reader;
    check(weir_handle_from_text(text, &handle));
    check(weir_record_reader_open(handle, NULL, &reader));
    weir_handle_free(handle);
    double sum = 0;
    const void *record;
    size_t count;
    /* The record is read where it lies, and stays until it is consumed. */
    while (weir_lend(reader, WEIR_FOREVER, &record, &count) == WEIR_OK) {
        const double *numbers = (const double *)record;
        for (size_t at = 0; at < count / sizeof *numbers; at++)
            sum += numbers[at];
        check(weir_consume(reader));
    }
    printf("the sum is %.0f\n", sum);
    weir_record_reader_free(reader);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2)
        return add_up(argv[1]);
    weir_handle *to, *from;
    weir_options options = { 4 << 20, 0, 0, WEIR_ADAPTIVE, { 0 } };
    char text[40];
    check(weir_records_handles(&options, &to, &from));
    check(weir_handle_to_text(from, text, sizeof text));
    if (fork() == 0) {
        weir_handle_free(to);
        execl(argv[0], argv[0], text, (char *)NULL);
        return 1;
    }
    weir_handle_free(from);

    weir_record_writer *writer;
    check(weir_record_writer_open(to, NULL, &writer));
    weir_handle_free(to);
    for (int array = 0; array < ARRAYS; array++) {
        void *place;
        check(weir_reserve(writer, NUMBERS * sizeof(double), WEIR_FOREVER, &place));
        for (int at = 0; at < NUMBERS; at++)
            ((double *)place)[at] = at % 10;
        check(weir_commit(writer));
    }
    weir_record_writer_free(writer);
    wait(NULL);
    return 0;
}
