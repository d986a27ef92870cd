/* One wait for a port, a pipe of bytes and flags. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

enum { PORT = 1, PIPE = 2, FLAGS = 3 };

/* Ends the program unless a call did what was asked. */
static void check(weir_status status) {
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error_message());
        exit(1);
    }
}

static void child(weir_handle *to, weir_handle *way, weir_flags *flags) {
    weir_writer *writer;
    weir_port_writer *messages;
    check(weir_writer_open(to, NULL, &writer));
    check(weir_port_writer_open(way, NULL, &messages));
    check(weir_write(writer, "bytes", 5, WEIR_FOREVER, NULL));
    check(weir_port_send(messages, "message", 7, WEIR_FOREVER));
    weir_writer_free(writer);
    weir_port_writer_free(messages);
    check(weir_flags_set(flags, 1, NULL));
}

int main(void) {
    weir_handle *to, *from, *way;
    weir_port *port;
    weir_flags *flags;
    check(weir_pipe_handles(NULL, &to, &from));
    check(weir_port_unnamed(NULL, &port, &way));
    check(weir_flags_create(&flags));
    if (fork() == 0) {
        child(to, way, flags);
        weir_handle_free(to);
        weir_handle_free(from);
        weir_handle_free(way);
        weir_port_free(port);
        weir_flags_free(flags);
        return 0;
    }
    weir_handle_free(to);
    weir_handle_free(way);

    weir_reader *reader;
    weir_wait *all;
    check(weir_reader_open(from, NULL, &reader));
    weir_handle_free(from);
    check(weir_wait_create(&all));
    check(weir_wait_add_port(all, port, PORT));
    check(weir_wait_add_reader(all, reader, PIPE));
    check(weir_wait_add_flags(all, flags, 1, 0, FLAGS));
    size_t messages = 0, bytes = 0;
    int left = 3;
    while (left > 0) {
        uint64_t ready[3];
        size_t count, got;
        char buffer[64];
        weir_received received;
        weir_status status;
        check(weir_wait_for(all, ready, 3, WEIR_FOREVER, &count));
        for (size_t at = 0; at < count; at++) {
            if (ready[at] == PORT) {
                status = weir_port_receive(port, buffer, sizeof buffer, 0, &received);
                messages += status == WEIR_OK && received.event == WEIR_MESSAGE;
            } else if (ready[at] == PIPE) {
                status = weir_read(reader, buffer, sizeof buffer, 0, &got);
                bytes += got;
            } else {
                status = WEIR_CLOSED; /* Once is enough. */
            }
            if (status == WEIR_CLOSED) {
                check(weir_wait_remove(all, ready[at]));
                left--;
            }
        }
    }
    printf("%d message, %d bytes\n", (int)messages, (int)bytes);
    weir_wait_free(all);
    weir_reader_free(reader);
    weir_port_free(port);
    weir_flags_free(flags);
    wait(NULL);
    return 0;
}
