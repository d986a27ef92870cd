/* Bad input: each call gets a status and a sentence, and nothing is lost. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

static int failures;

/* The status that a call should give, and a part of its sentence. */
static void expect(int line, weir_status status, weir_status wanted, const char *sentence) {
    const char *message = weir_error_message();
    if (status == wanted && (status == WEIR_OK || strstr(message, sentence)))
        return;
    fprintf(stderr, "line %d: %s (%s), wanted %s with '%s'\n", line, weir_status_name(status), message,
            weir_status_name(wanted), sentence);
    failures++;
}

#define EXPECT(call, wanted, sentence) expect(__LINE__, (call), (wanted), (sentence))
#define OK(call) EXPECT((call), WEIR_OK, "")

static void nulls(void) {
    weir_writer *writer;
    weir_reader *reader;
    char byte = 0;
    size_t count;
    EXPECT(weir_pipe(NULL, NULL, &reader), WEIR_INVALID, "cannot use a handle: the place for the result is NULL");
    OK(weir_pipe(NULL, &writer, &reader));
    EXPECT(weir_write(NULL, &byte, 1, 0, NULL), WEIR_INVALID, "cannot use a writer: it is NULL");
    EXPECT(weir_write(writer, NULL, 1, 0, NULL), WEIR_INVALID, "a buffer: it is NULL");
    EXPECT(weir_write(writer, &byte, (size_t)-1, 0, NULL), WEIR_INVALID, "more than there is memory");
    EXPECT(weir_read(reader, &byte, 1, 0, NULL), WEIR_INVALID, "the place for the result is NULL");
    EXPECT(weir_read(reader, NULL, 1, 0, &count), WEIR_INVALID, "a buffer: it is NULL");
    OK(weir_write(writer, NULL, 0, 0, NULL));
    OK(weir_write(writer, &byte, 1, 0, NULL));
    OK(weir_read(reader, NULL, 0, WEIR_FOREVER, &count));
    OK(weir_read(reader, &byte, 1, 0, &count));
    weir_writer_free(writer);
    weir_reader_free(reader);
    EXPECT(weir_writer_connect(NULL, NULL, 0, &writer), WEIR_INVALID, "a name: it is NULL");
    if (writer != NULL)
        failures++;
    weir_writer_free(NULL);
    weir_reader_free(NULL);
    weir_record_writer_free(NULL);
    weir_record_reader_free(NULL);
    weir_handle_free(NULL);
    weir_listener_free(NULL);
    weir_port_free(NULL);
    weir_port_writer_free(NULL);
    weir_flags_free(NULL);
    weir_wait_free(NULL);
}

static void sizes(void) {
    weir_options options;
    weir_record_writer *writer;
    weir_record_reader *reader;
    size_t count, sent = 0;
    memset(&options, 0, sizeof options);
    options.capacity_bytes = (uint64_t)1 << 40;
    EXPECT(weir_records(&options, &writer, &reader), WEIR_INVALID, "1099511627776 bytes are out of range");
    options.capacity_bytes = 4096;
    options.reserved[8] = 1;
    EXPECT(weir_records(&options, &writer, &reader), WEIR_INVALID, "a reserved field is not 0");
    options.reserved[8] = 0;
    options.waiting = 3;
    EXPECT(weir_records(&options, &writer, &reader), WEIR_INVALID, "waiting is not a weir_waiting");
    options.waiting = WEIR_SLEEP;
    OK(weir_records(&options, &writer, &reader));

    /* Too long, too small, full: what is there stays. */
    static char record[8192];
    EXPECT(weir_send(writer, record, 4097, 0), WEIR_INVALID, "4097 bytes are out of range: 0 to 4096");
    EXPECT(weir_receive(reader, record, 64, 0, &count), WEIR_WOULD_BLOCK, "it is empty");
    EXPECT(weir_receive(reader, record, 64, 1000000, &count), WEIR_TIMED_OUT, "it stayed empty");
    OK(weir_send(writer, record, 0, 0));
    OK(weir_send(writer, "three", 5, 0));
    OK(weir_receive(reader, record, 0, 0, &count));
    EXPECT(weir_receive(reader, record, 4, 0, &count), WEIR_TOO_SMALL, "the record has 5 bytes, the buffer 4");
    if (count != 5)
        failures++;
    OK(weir_receive(reader, record, 5, 0, &count));
    while (weir_send(writer, record, 500, 0) == WEIR_OK)
        sent++;
    EXPECT(weir_send(writer, record, 500, 0), WEIR_WOULD_BLOCK, "it is full");
    EXPECT(weir_send(writer, record, 500, 1000000), WEIR_TIMED_OUT, "it stayed full");
    for (; sent > 0; sent--)
        OK(weir_receive(reader, record, sizeof record, 0, &count));
    EXPECT(weir_receive(reader, record, sizeof record, 0, &count), WEIR_WOULD_BLOCK, "it is empty");
    weir_record_writer_free(writer);
    EXPECT(weir_receive(reader, record, sizeof record, 0, &count), WEIR_CLOSED, "the writer has closed or died");
    weir_record_reader_free(reader);
}

static void loans(void) {
    weir_record_writer *writer;
    weir_record_reader *reader;
    void *place;
    const void *record;
    char buffer[16];
    size_t count;
    OK(weir_records(NULL, &writer, &reader));
    EXPECT(weir_commit(writer), WEIR_INVALID, "nothing is reserved");
    EXPECT(weir_consume(reader), WEIR_INVALID, "nothing is lent");
    EXPECT(weir_lend(reader, 0, &record, &count), WEIR_WOULD_BLOCK, "it is empty");
    OK(weir_reserve(writer, 5, 0, &place));
    memcpy(place, "first", 5);
    OK(weir_commit(writer));
    EXPECT(weir_commit(writer), WEIR_INVALID, "nothing is reserved");
    /* What is reserved and not committed is not sent. */
    OK(weir_reserve(writer, 5, 0, &place));
    memcpy(place, "never", 5);
    OK(weir_send(writer, "second", 6, 0));
    EXPECT(weir_commit(writer), WEIR_INVALID, "it was sent over");
    /* What is lent and not consumed stays. */
    OK(weir_lend(reader, 0, &record, &count));
    OK(weir_lend(reader, 0, &record, &count));
    if (count != 5 || memcmp(record, "first", 5) != 0)
        failures++;
    OK(weir_receive(reader, buffer, sizeof buffer, 0, &count));
    EXPECT(weir_consume(reader), WEIR_INVALID, "it was received meanwhile");
    OK(weir_lend(reader, 0, &record, &count));
    if (count != 6 || memcmp(record, "second", 6) != 0)
        failures++;
    OK(weir_consume(reader));
    weir_record_reader_free(reader);
    EXPECT(weir_reserve(writer, 5, 0, &place), WEIR_CLOSED, "the reader has closed or died");
    EXPECT(weir_send(writer, "late", 4, 0), WEIR_CLOSED, "the reader has closed or died");
    weir_record_writer_free(writer);
}

static void ports(void) {
    weir_port *port, *second;
    weir_port_writer *writer;
    weir_received received;
    char buffer[16];
    EXPECT(weir_port_create("", NULL, &port), WEIR_INVALID, "");
    EXPECT(weir_port_create(NULL, NULL, &port), WEIR_INVALID, "a name: it is NULL");
    EXPECT(weir_port_create("./no/such/directory", NULL, &port), WEIR_OS, "./no/such/directory");
    if (weir_error_os() == 0)
        failures++;
    EXPECT(weir_port_writer_connect("./port", NULL, 0, &writer), WEIR_NO_READER, "./port");
    if (weir_error_os() != 0)
        failures++;
    OK(weir_port_create("./port", NULL, &port));
    EXPECT(weir_port_create("./port", NULL, &second), WEIR_TAKEN, "./port");
    OK(weir_port_writer_connect("./port", NULL, 0, &writer));
    EXPECT(weir_port_receive(port, buffer, sizeof buffer, 0, &received), WEIR_WOULD_BLOCK, "");
    OK(weir_port_send(writer, "a message that is long", 22, 0));
    EXPECT(weir_port_receive(port, buffer, sizeof buffer, 0, &received), WEIR_TOO_SMALL, "22 bytes");
    if (received.count != 22)
        failures++;
    static char large[64];
    OK(weir_port_receive(port, large, sizeof large, 0, &received));
    if (received.pid != getpid() || received.sequence != 1 || received.writer != 1)
        failures++;
    EXPECT(weir_port_shut_out(port, 7), WEIR_INVALID, "it is gone");
    OK(weir_port_shut_out(port, 1));
    OK(weir_port_receive(port, large, sizeof large, WEIR_FOREVER, &received));
    if (received.event != WEIR_WRITER_ENDED || received.ending != WEIR_SHUT_OUT)
        failures++;
    weir_port_free(port);
    EXPECT(weir_port_send(writer, "late", 4, WEIR_FOREVER), WEIR_REFUSED, "has shut this writer out");
    weir_port_writer_free(writer);
}

static void handles(void) {
    weir_handle *to, *from, *other;
    weir_writer *writer, *none;
    weir_reader *reader;
    weir_record_reader *records;
    char text[40];
    OK(weir_pipe_handles(NULL, &to, &from));
    EXPECT(weir_handle_to_text(to, text, 4), WEIR_INVALID, "too small");
    EXPECT(weir_handle_from_text("writer", &other), WEIR_INVALID, "'writer' is not the text of a handle");
    EXPECT(weir_handle_from_text("writer 1 2", &other), WEIR_INVALID, "is not the text of a handle");
    EXPECT(weir_handle_from_text("writer 900 901", &other), WEIR_INVALID, "descriptor 900 is not open");
    EXPECT(weir_port_writer_open(to, NULL, NULL), WEIR_INVALID, "the place");
    OK(weir_writer_open(to, NULL, &writer));
    EXPECT(weir_writer_open(to, NULL, &none), WEIR_INVALID, "its end was opened or sent");
    EXPECT(weir_writer_open(from, NULL, &none), WEIR_INVALID, "the handle is a reader's");
    weir_writer_free(writer);
    weir_handle_free(to);
    weir_handle_free(from);

    OK(weir_pipe_handles(NULL, &to, &from));
    EXPECT(weir_record_reader_open(from, NULL, &records), WEIR_INVALID, "the memory is of another kind");
    weir_handle_free(from);
    weir_handle_free(to);

    OK(weir_pipe(NULL, &writer, &reader));
    OK(weir_write(writer, "kept", 4, 0, NULL));
    OK(weir_reader_to_handle(reader, &from));
    OK(weir_reader_open(from, NULL, &reader));
    weir_handle_free(from);
    size_t count;
    OK(weir_read(reader, text, sizeof text, 0, &count));
    if (count != 4)
        failures++;
    weir_writer_free(writer);
    weir_reader_free(reader);
}

static void forked(void) {
    weir_record_writer *writer;
    weir_record_reader *reader;
    char buffer[16];
    size_t count;
    int how;
    OK(weir_records(NULL, &writer, &reader));
    pid_t child = fork();
    if (child == 0) {
        EXPECT(weir_send(writer, "no", 2, 0), WEIR_FORKED, "the process that this one was forked from");
        EXPECT(weir_receive(reader, buffer, 16, 0, &count), WEIR_FORKED, "the process that this one was forked from");
        weir_record_writer_free(writer);
        weir_record_reader_free(reader);
        _exit(failures);
    }
    if (waitpid(child, &how, 0) != child || how != 0)
        failures++;
    /* The child has changed nothing. */
    OK(weir_send(writer, "yes", 3, 0));
    OK(weir_receive(reader, buffer, sizeof buffer, 0, &count));
    weir_record_writer_free(writer);
    weir_record_reader_free(reader);
}

static void waits(void) {
    weir_wait *all;
    weir_record_writer *writer;
    weir_record_reader *reader;
    weir_flags *flags;
    uint64_t ready[2], state;
    size_t count;
    OK(weir_wait_create(&all));
    EXPECT(weir_wait_for(all, ready, 2, WEIR_FOREVER, &count), WEIR_INVALID, "there is nothing to wait for");
    EXPECT(weir_wait_for(all, ready, 0, 0, &count), WEIR_INVALID, "it has room for none");
    EXPECT(weir_wait_add_reader(all, NULL, 1), WEIR_INVALID, "it is NULL");
    EXPECT(weir_wait_add_descriptor(all, -1, WEIR_TO_READ, 1), WEIR_INVALID, "negative");
    EXPECT(weir_wait_remove(all, 1), WEIR_INVALID, "nothing of this number");
    OK(weir_records(NULL, &writer, &reader));
    OK(weir_flags_create(&flags));
    EXPECT(weir_flags_wait(flags, 0, 0, 0, &state), WEIR_INVALID, "the mask is empty");
    EXPECT(weir_flags_wait(flags, 1, 4, 0, &state), WEIR_INVALID, "how to wait");
    EXPECT(weir_flags_wait(flags, 1, 0, 0, &state), WEIR_WOULD_BLOCK, "they are not set");
    OK(weir_wait_add_record_reader(all, reader, 1));
    EXPECT(weir_wait_add_flags(all, flags, 1, 0, 1), WEIR_INVALID, "another thing of this number");
    OK(weir_wait_add_flags(all, flags, 1, 0, 2));
    EXPECT(weir_wait_for(all, ready, 2, 0, &count), WEIR_WOULD_BLOCK, "nothing is ready");
    OK(weir_send(writer, "one", 3, 0));
    OK(weir_wait_for(all, ready, 2, WEIR_FOREVER, &count));
    if (count != 1 || ready[0] != 1)
        failures++;
    /* One that is freed leaves the wait by itself. */
    weir_record_reader_free(reader);
    EXPECT(weir_wait_for(all, ready, 2, 0, &count), WEIR_WOULD_BLOCK, "nothing is ready");
    OK(weir_flags_set(flags, 1, NULL));
    OK(weir_wait_for(all, ready, 2, WEIR_FOREVER, &count));
    if (count != 1 || ready[0] != 2)
        failures++;
    /* A writer that wants more room than there is. */
    weir_options options;
    memset(&options, 0, sizeof options);
    options.capacity_bytes = 4096;
    weir_record_writer *small;
    OK(weir_records(&options, &small, &reader));
    OK(weir_wait_remove(all, 2));
    OK(weir_wait_add_record_writer(all, small, 3));
    while (weir_send(small, ready, sizeof ready, 0) == WEIR_OK) {}
    OK(weir_wait_want(all, 3, 1000));
    EXPECT(weir_wait_for(all, ready, 2, 1000000, &count), WEIR_TIMED_OUT, "nothing was ready in time");
    weir_record_reader_free(reader);
    OK(weir_wait_for(all, ready, 2, WEIR_FOREVER, &count));
    weir_record_writer_free(small);
    weir_wait_free(all);
    weir_record_writer_free(writer);
    weir_flags_free(flags);
}

int main(int argc, char **argv) {
    nulls();
    sizes();
    loans();
    ports();
    handles();
    /* In a child, what the watcher of its parent had is nobody's, which valgrind calls a leak. */
    if (argc < 2 || strcmp(argv[1], "without-fork") != 0)
        forked();
    waits();
    printf("%d failures\n", failures);
    return failures != 0;
}
