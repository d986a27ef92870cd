/* A hundred writers and a log: every process sends lines to one port, by its name. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

enum { WRITERS = 100, LINES = 10 };

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

static void work(int number) {
    weir_port_writer *writer;
    check(weir_port_writer_connect("./log", NULL, WEIR_FOREVER, &writer));
    for (int line = 1; line <= LINES; line++) {
        char text[64];
        int count = snprintf(text, sizeof text, "worker %d has done %d of %d", number, line, LINES);
        check(weir_port_send(writer, text, (size_t)count, WEIR_FOREVER));
    }
    weir_port_writer_free(writer);
}

int main(void) {
    /* A name with a '/' is a path. */
    weir_port *port;
    check(weir_port_create("./log", NULL, &port));
    for (int number = 1; number <= WRITERS; number++) {
        if (fork() == 0) {
            work(number);
            weir_port_free(port); /* The parent's stays. */
            return 0;
        }
    }

    int lines = 0, ended = 0;
    while (ended < WRITERS) {
        char text[256];
        weir_received received;
        check(weir_port_receive(port, text, sizeof text, WEIR_FOREVER, &received));
        if (received.event == WEIR_WRITER_ENDED) {
            if (received.ending != WEIR_HAS_CLOSED || received.sequence != LINES)
                fprintf(stderr, "process %d has died\n", (int)received.pid);
            ended++;
            continue;
        }
        lines++;
        /* The kernel says whose line it is. */
        if (lines == 1)
            printf("user %d: %.*s ...\n", (int)received.uid, 6, text);
    }
    printf("%d lines of %d writers\n", lines, ended);
    weir_port_free(port);
    while (wait(NULL) > 0) {}
    return 0;
}
