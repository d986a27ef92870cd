/* A request and its reply, between two processes that know a path. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

static const int64_t SECOND = 1000000000;

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

static void ask(void) {
    weir_record_writer *writer;
    weir_record_reader *reader;
    check(weir_duplex_connect("./reverser", NULL, 10 * SECOND, &writer, &reader));
    const char *words[] = { "stressed", "drawer", "live" };
    for (int word = 0; word < 3; word++) {
        char reply[64];
        size_t count;
        check(weir_request(writer, reader, words[word], strlen(words[word]), reply, sizeof reply,
                           10 * SECOND, &count));
        printf("%s: %.*s\n", words[word], (int)count, reply);
    }
    weir_record_writer_free(writer);
    weir_record_reader_free(reader);
}

int main(void) {
    weir_listener *listener;
    check(weir_listen("./reverser", &listener));
    if (fork() == 0) {
        weir_listener_free(listener); /* The parent's stays. */
        ask();
        return 0;
    }

    /* Each side of a channel is a writer and a reader of records. */
    weir_record_writer *writer;
    weir_record_reader *reader;
    check(weir_accept_duplex(listener, 10 * SECOND, &writer, &reader));
    char request[64], reply[64];
    size_t count;
    while (weir_receive(reader, request, sizeof request, WEIR_FOREVER, &count) == WEIR_OK) {
        for (size_t at = 0; at < count; at++)
            reply[at] = request[count - 1 - at];
        check(weir_send(writer, reply, count, WEIR_FOREVER));
    }
    printf("%s\n", weir_error_message());
    weir_record_writer_free(writer);
    weir_record_reader_free(reader);
    weir_listener_free(listener);
    wait(NULL);
    return 0;
}
