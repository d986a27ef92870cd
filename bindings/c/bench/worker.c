/* The C side of the bench: `worker one N`, `worker write PATH N`, `worker read PATH N`. Prints ns for a record. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir.h>

enum { RECORD = 64, BATCH = 64 };

static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void one(long records) {
    weir_record_writer *writer;
    weir_record_reader *reader;
    char record[RECORD], got[RECORD];
    size_t count;
    memset(record, 1, sizeof record);
    check(weir_records(NULL, &writer, &reader));
    double begun = now();
    for (long done = 0; done < records; done += BATCH) {
        for (int number = 0; number < BATCH; number++)
            check(weir_send(writer, record, sizeof record, WEIR_FOREVER));
        for (int number = 0; number < BATCH; number++)
            check(weir_receive(reader, got, sizeof got, WEIR_FOREVER, &count));
    }
    printf("%.4f\n", (now() - begun) / (double)records);
    weir_record_writer_free(writer);
    weir_record_reader_free(reader);
}

static void write_to(const char *path, long records) {
    weir_record_writer *writer;
    char record[RECORD];
    memset(record, 1, sizeof record);
    check(weir_record_writer_connect(path, NULL, 10000000000, &writer));
    for (long done = 0; done < records; done++)
        check(weir_send(writer, record, sizeof record, WEIR_FOREVER));
    weir_record_writer_free(writer);
}

static void read_from(const char *path, long records) {
    weir_listener *listener;
    weir_record_reader *reader;
    char record[RECORD];
    size_t count;
    check(weir_listen(path, &listener));
    check(weir_accept_record_reader(listener, 10000000000, &reader));
    check(weir_receive(reader, record, sizeof record, WEIR_FOREVER, &count));
    double begun = now();
    for (long done = 1; done < records; done++)
        check(weir_receive(reader, record, sizeof record, WEIR_FOREVER, &count));
    printf("%.4f\n", (now() - begun) / (double)(records - 1));
    weir_record_reader_free(reader);
    weir_listener_free(listener);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "one") == 0)
        one(atol(argv[2]));
    else if (argc == 4 && strcmp(argv[1], "write") == 0)
        write_to(argv[2], atol(argv[3]));
    else if (argc == 4 && strcmp(argv[1], "read") == 0)
        read_from(argv[2], atol(argv[3]));
    else
        return 2;
    return 0;
}
