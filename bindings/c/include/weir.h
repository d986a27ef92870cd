/*
 * weir for C and C++: pipes, records, ports and flags between processes. docs/c.md begins with programs.
 *
 * Every function that can fail returns a weir_status: WEIR_OK, or why it failed. Then weir_error_message()
 * has a sentence, and weir_error_os() the errno if the kernel refused. A result is stored where a pointer
 * says: a NULL handle or 0 if the call fails.
 *
 * Handles. What has two stars is a new handle, which the caller frees by the free function of its type;
 * freeing NULL does nothing. One thread at a time uses a handle, but weir_flags and weir_listener, which
 * several may use at once. An argument that is NULL where it may not be gives WEIR_INVALID.
 *
 * Timeouts are in nanoseconds. WEIR_FOREVER waits as long as it takes. 0 does not wait: WEIR_WOULD_BLOCK.
 *
 * Signals. No call raises SIGPIPE. A handler that runs does not end a wait: wait with a timeout, or for a
 * signalfd by weir_wait_add_descriptor(). No function may be called in a handler.
 *
 * Threads. The first end that is opened starts one thread, "weir-watcher", which hears of deaths and of
 * connections, sleeps otherwise, and blocks all signals. Handles, flags and options start none. If a hostile
 * peer sends descriptors that are slow to close, threads of their own close them.
 *
 * fork(). In a child, ends, ports, listeners and waits of the parent answer WEIR_FORKED, and freeing them
 * changes nothing for the parent. A child inherits flags, and handles (weir_handle) of ends that are not open.
 *
 * Other processes are not trusted. Whatever one writes into shared memory, a call gets wrong bytes or
 * WEIR_CORRUPT, and nothing worse.
 */

#ifndef WEIR_H
#define WEIR_H

#include <stddef.h>
#include <stdint.h>

/** A timeout that never passes. A timeout of 0 does not wait. */
#define WEIR_FOREVER -1

/** Waits until all flags of the mask are set at once. Without it: until any is. */
#define WEIR_ALL 1

/** Clears the flags that were waited for, in the same step: each goes to one of several that wait. */
#define WEIR_CLEAR 2

/** Waits until the descriptor can be read. */
#define WEIR_TO_READ 0

/** Waits until the descriptor can be written to. */
#define WEIR_TO_WRITE 1

/** How a call ended. weir_error_message() has a sentence for all but WEIR_OK. */
typedef enum {
    /** It did what was asked. */
    WEIR_OK = 0,
    /** The other end has closed or died. To a reader: and everything was received. */
    WEIR_CLOSED = 1,
    /** No reader is listening at the name or path. */
    WEIR_NO_READER = 2,
    /** Another process has the name, or a file that is not weir's has it. */
    WEIR_TAKEN = 3,
    /** The reader refused the writer, or has shut it out. */
    WEIR_REFUSED = 4,
    /** The timeout was 0, and the call would have to wait. */
    WEIR_WOULD_BLOCK = 5,
    /** The timeout has passed. */
    WEIR_TIMED_OUT = 6,
    /** An argument is not valid: a NULL, a size, a name. */
    WEIR_INVALID = 7,
    /** Shared memory, or a message from another process, is not valid. */
    WEIR_CORRUPT = 8,
    /** The buffer is too small. The record stays, and its length was stored. */
    WEIR_TOO_SMALL = 9,
    /** The end belongs to the process that this one was forked from. */
    WEIR_FORKED = 10,
    /** The kernel refused; weir_error_os() is its errno, ENOMEM and EMFILE among them. */
    WEIR_OS = 11,
    /** A bug of weir. What the call was about is in an unknown state: free it. */
    WEIR_BUG = 12,
} weir_status;

/** How the other end has ended. */
typedef enum {
    /** It is there. */
    WEIR_THERE = 0,
    /** It was freed. */
    WEIR_HAS_CLOSED = 1,
    /** Its process died with it, or executed another program. */
    WEIR_HAS_DIED = 2,
    /** This side shut it out, because it broke the protocol or was not wanted any longer. */
    WEIR_SHUT_OUT = 3,
} weir_ending;

/** What came from a writer. */
typedef enum {
    /** A message, at the front of the buffer. */
    WEIR_MESSAGE = 0,
    /** The writer is gone, and all it sent was received. Each writer ends so exactly once. */
    WEIR_WRITER_ENDED = 1,
} weir_event;

/** How an end waits. */
typedef enum {
    /** It spins for as long as that has paid lately, then sleeps. */
    WEIR_ADAPTIVE = 0,
    /** It sleeps at once. */
    WEIR_SLEEP = 1,
    /** It spins until there is something to do. For ends that each have a CPU of their own. */
    WEIR_SPIN = 2,
} weir_waiting;

/** A cluster of 64 flags. */
typedef struct weir_flags weir_flags;

/**
 * An end that is not open, or a way to a port without a name. Freeing one that was not opened or sent
 * closes its pipe.
 */
typedef struct weir_handle weir_handle;

/** What accepts those that connect to a path. */
typedef struct weir_listener weir_listener;

/** The reader of a port. */
typedef struct weir_port weir_port;

/** A writer to a port. */
typedef struct weir_port_writer weir_port_writer;

/** The reading end of a pipe of bytes. */
typedef struct weir_reader weir_reader;

/** The reading end of a pipe of records. */
typedef struct weir_record_reader weir_record_reader;

/** The writing end of a pipe of records. */
typedef struct weir_record_writer weir_record_writer;

/** A wait. */
typedef struct weir_wait weir_wait;

/** The writing end of a pipe of bytes. */
typedef struct weir_writer weir_writer;

/**
 * Options of a pipe, of a connection, or of an end that is opened. Set all to 0 by memset() or
 * `= {0}`, and then what is to be different. NULL stands for the defaults wherever options are taken.
 */
typedef struct {
    /**
     * Bytes the ring holds: at most 1 GiB, rounded up to a power of two. 0: `weir tune` or the caches
     * decide.
     */
    uint64_t capacity_bytes;
    /**
     * Bytes after which a long write is published and its reader woken; of a writer to a port: the
     * longest piece of a message. 0: a part of the capacity.
     */
    uint64_t segment_bytes;
    /** The longest write to a stream that appears whole. 0: 4096. */
    uint64_t atomic_bytes;
    /** A weir_waiting. */
    uint32_t waiting;
    /** Must be 0. */
    uint32_t reserved[9];
} weir_options;

/** What one end has done so far. It is exact while the end rests. */
typedef struct {
    /** Bytes moved. */
    uint64_t bytes;
    /** Records moved; of a stream, calls that moved something. */
    uint64_t records;
    /** Times the end could not go on, and of these, how often spinning ended the wait. */
    uint64_t waits;
    /** See waits. */
    uint64_t spun;
    /** Times it slept. */
    uint64_t slept;
    /** Time asleep, in nanoseconds. */
    uint64_t slept_ns;
    /** Times it woke the other end. */
    uint64_t wakes_given;
    /** Times the other end woke it. */
    uint64_t wakes_taken;
    /** The largest fill of the ring it saw, in bytes. */
    uint64_t largest_fill_bytes;
} weir_account;

/** Options of a port. Set all to 0, and then what is to be different. */
typedef struct {
    /** The longest message the port takes. 0: 16 MiB. */
    uint64_t most_message_bytes;
    /** The most memory for messages whose last pieces have not come yet. 0: 64 MiB. */
    uint64_t most_unfinished_bytes;
    /** The most writers at once, at most 16384. 0: 1024. */
    uint32_t most_writers;
    /** The permissions of the port's socket: who may write. 0: 0600. */
    uint32_t mode;
    /** A weir_waiting. */
    uint32_t waiting;
    /** Must be 0. */
    uint32_t reserved[9];
} weir_port_options;

/** Something that a port received, and from whom. */
typedef struct {
    /** What came. */
    weir_event event;
    /** How the writer has ended; WEIR_THERE with a message. */
    weir_ending ending;
    /** The length of the message; with WEIR_TOO_SMALL, the size that the buffer needs. */
    size_t count;
    /** The number of the writer. They are counted from 1 in the order in which they were let in. */
    uint64_t writer;
    /** The number of this message among the writer's, from 1. With its end: how many there were. */
    uint64_t sequence;
    /** The writer's process, as the kernel says; 0 if its pid namespace cannot be seen from here. */
    int32_t pid;
    /** Its user. */
    uint32_t uid;
    /** Its group. */
    uint32_t gid;
    /** 0. */
    uint32_t reserved;
} weir_received;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* ------------------------------------------------------------------------------------------------
 * Status and errors.
 * ------------------------------------------------------------------------------------------------ */

/**
 * Returns what went wrong in the last call of this thread that failed, as a sentence: "cannot open
 * port 'log': no reader is listening". Never NULL. It is valid until another call of this thread
 * fails.
 */
const char *weir_error_message(void);

/**
 * Returns the errno of the last call of this thread that failed with WEIR_OS, or 0 if the last that
 * failed did so with another status.
 */
int weir_error_os(void);

/** Returns the name of a status, such as "WEIR_CLOSED", for messages to people who debug. */
const char *weir_status_name(int status);

/** Returns the version of the library, such as "0.1.0". */
const char *weir_version(void);

/* ------------------------------------------------------------------------------------------------
 * Pipes of bytes.
 * ------------------------------------------------------------------------------------------------ */

/** Makes a pipe of bytes. Both ends are in this process until one is handed on. */
weir_status weir_pipe(const weir_options *options, weir_writer **writer, weir_reader **reader);

/**
 * Connects to the reader that listens at a path, with a weir_listener, and waits for one if there is
 * none yet.
 */
weir_status weir_writer_connect(const char *path,
                                const weir_options *options,
                                int64_t timeout_ns,
                                weir_writer **writer);

/**
 * Writes all `count` bytes, waiting for room. `written` may be NULL; it gets how many bytes were
 * written, also if the call fails. If the time passes once some are written, the call succeeds and
 * `written` is less than `count`.
 */
weir_status weir_write(weir_writer *writer,
                       const void *bytes,
                       size_t count,
                       int64_t timeout_ns,
                       size_t *written);

/**
 * Reads what is there, at least one byte, waiting for it. Fails with WEIR_CLOSED once the writer is
 * gone and everything is read.
 */
weir_status weir_read(weir_reader *reader,
                      void *buffer,
                      size_t size,
                      int64_t timeout_ns,
                      size_t *count);

/** Stores how many bytes, at least, can be written without waiting, until this end writes. */
weir_status weir_writer_room(weir_writer *writer, uint64_t *bytes);

/** Stores how many bytes, at least, can be read without waiting, until this end reads. */
weir_status weir_reader_available(weir_reader *reader, uint64_t *bytes);

/** Stores how the reader has ended, once a call has found that it is gone. */
weir_status weir_writer_ending(const weir_writer *writer, weir_ending *ending);

/** Stores how the writer has ended, once a call has found that it is gone. */
weir_status weir_reader_ending(const weir_reader *reader, weir_ending *ending);

/**
 * Stores a descriptor for poll() and epoll, which belongs to the end: do not read, write or close it.
 * It is readable while there may be something to do, a writer's too. So wait until it is readable,
 * and then write with timeout 0 until that fails with WEIR_WOULD_BLOCK. Only that makes the
 * descriptor wait for what comes next.
 */
weir_status weir_writer_descriptor(weir_writer *writer,
                                   int *descriptor);

/** As weir_writer_descriptor(), for reading. */
weir_status weir_reader_descriptor(weir_reader *reader, int *descriptor);

/** Stores the account of the writer. */
weir_status weir_writer_account(const weir_writer *writer, weir_account *account);

/** Stores the account of the reader. */
weir_status weir_reader_account(const weir_reader *reader, weir_account *account);

/** Frees the writer and closes the pipe: the reader reads what was written, and then finds the end. */
void weir_writer_free(weir_writer *writer);

/** Frees the reader and closes the pipe: a write fails with WEIR_CLOSED from now on. */
void weir_reader_free(weir_reader *reader);

/* ------------------------------------------------------------------------------------------------
 * Pipes of records: each arrives whole, with its length.
 * ------------------------------------------------------------------------------------------------ */

/** Makes a pipe of records. Both ends are in this process until one is handed on. */
weir_status weir_records(const weir_options *options,
                         weir_record_writer **writer,
                         weir_record_reader **reader);

/**
 * Connects to the reader that listens at a path, with a weir_listener, and waits for one if there is
 * none yet.
 */
weir_status weir_record_writer_connect(const char *path,
                                       const weir_options *options,
                                       int64_t timeout_ns,
                                       weir_record_writer **writer);

/**
 * Sends a record, which may be empty, waiting for room. The record is sent whole or not at all. It has
 * at most as many bytes as the capacity.
 */
weir_status weir_send(weir_record_writer *writer,
                      const void *record,
                      size_t count,
                      int64_t timeout_ns);

/**
 * Receives the next record, waiting for it, and stores its length. Fails with WEIR_CLOSED once the
 * writer is gone and everything is received. With WEIR_TOO_SMALL the record stays, and `count` is
 * the size that the buffer needs.
 */
weir_status weir_receive(weir_record_reader *reader,
                         void *buffer,
                         size_t size,
                         int64_t timeout_ns,
                         size_t *count);

/**
 * Lends the place of a record of `count` bytes, which the caller writes there: `place` leads to memory
 * that both processes share. weir_commit() sends it. Without that it is gone once this end sends or
 * reserves again, or is freed. For large records: it saves a copy.
 */
weir_status weir_reserve(weir_record_writer *writer,
                         size_t count,
                         int64_t timeout_ns,
                         void **place);

/** Sends the record whose place was reserved. */
weir_status weir_commit(weir_record_writer *writer);

/**
 * Lends the next record where it lies, waiting for it. `record` leads to memory that both processes
 * share: a hostile writer may change it at any time, so copy what you check. It is valid until
 * weir_consume(), weir_receive() or weir_record_reader_free(). Until one of them the record stays.
 */
weir_status weir_lend(weir_record_reader *reader,
                      int64_t timeout_ns,
                      const void **record,
                      size_t *count);

/** Consumes the record that was lent, and gives its room back. */
weir_status weir_consume(weir_record_reader *reader);

/** Stores how the reader has ended, once a call has found that it is gone. */
weir_status weir_record_writer_ending(const weir_record_writer *writer, weir_ending *ending);

/** Stores how the writer has ended, once a call has found that it is gone. */
weir_status weir_record_reader_ending(const weir_record_reader *reader, weir_ending *ending);

/** As weir_writer_descriptor(): send with timeout 0 until that fails with WEIR_WOULD_BLOCK. */
weir_status weir_record_writer_descriptor(weir_record_writer *writer, int *descriptor);

/** As weir_writer_descriptor(): receive with timeout 0 until that fails with WEIR_WOULD_BLOCK. */
weir_status weir_record_reader_descriptor(weir_record_reader *reader, int *descriptor);

/** Stores the account of the writer. */
weir_status weir_record_writer_account(const weir_record_writer *writer, weir_account *account);

/** Stores the account of the reader. */
weir_status weir_record_reader_account(const weir_record_reader *reader, weir_account *account);

/** Frees the writer and closes the pipe: the reader receives what was sent, and then finds the end. */
void weir_record_writer_free(weir_record_writer *writer);

/** Frees the reader and closes the pipe: a send fails with WEIR_CLOSED from now on. */
void weir_record_reader_free(weir_record_reader *reader);

/* ------------------------------------------------------------------------------------------------
 * Requests and replies: a channel is two pipes of records, one in each direction.
 *
 * Each of its two sides is a writer and a reader, which do all that other ends do.
 * ------------------------------------------------------------------------------------------------ */

/**
 * Makes a channel. `writer` and `reader` are one side of it, `other_writer` and `other_reader` the
 * other.
 */
weir_status weir_duplex(const weir_options *options,
                        weir_record_writer **writer,
                        weir_record_reader **reader,
                        weir_record_writer **other_writer,
                        weir_record_reader **other_reader);

/**
 * Connects to a weir_listener at a path, which takes the other side by weir_accept_duplex(). Waits
 * for one if there is none yet.
 */
weir_status weir_duplex_connect(const char *path,
                                const weir_options *options,
                                int64_t timeout_ns,
                                weir_record_writer **writer,
                                weir_record_reader **reader);

/**
 * Sends a request and waits for the next record that comes back. The timeout is for both together. If
 * it passes, the reply may still come, and the next request would get it.
 */
weir_status weir_request(weir_record_writer *writer,
                         weir_record_reader *reader,
                         const void *request,
                         size_t request_count,
                         void *reply,
                         size_t reply_size,
                         int64_t timeout_ns,
                         size_t *reply_count);

/* ------------------------------------------------------------------------------------------------
 * Handles: ends that are not open, on their way to another process.
 *
 * A forked child inherits handles, and not ends: in a child the parent's ends answer WEIR_FORKED. So
 * make handles, fork, and open one end in each process. A program that is executed gets a handle as a
 * text, and any process gets one over a unix socket.
 * ------------------------------------------------------------------------------------------------ */

/** Makes a pipe of bytes whose ends are opened in any process. */
weir_status weir_pipe_handles(const weir_options *options,
                              weir_handle **writer,
                              weir_handle **reader);

/**
 * Makes a pipe of records whose ends are opened in any process. Two of them, one in each direction,
 * are a channel for requests.
 */
weir_status weir_records_handles(const weir_options *options,
                                 weir_handle **writer,
                                 weir_handle **reader);

/** Opens a writer that was handed on, and empties the handle. */
weir_status weir_writer_open(weir_handle *handle,
                             const weir_options *options,
                             weir_writer **writer);

/** Opens a reader that was handed on, and empties the handle. */
weir_status weir_reader_open(weir_handle *handle,
                             const weir_options *options,
                             weir_reader **reader);

/** Opens a writer that was handed on, and empties the handle. */
weir_status weir_record_writer_open(weir_handle *handle,
                                    const weir_options *options,
                                    weir_record_writer **writer);

/** Opens a reader that was handed on, and empties the handle. */
weir_status weir_record_reader_open(weir_handle *handle,
                                    const weir_options *options,
                                    weir_record_reader **reader);

/** Frees a writer and makes a handle of it, without closing the pipe. `handle` is NULL if that fails. */
weir_status weir_writer_to_handle(weir_writer *writer,
                                  weir_handle **handle);

/** As weir_writer_to_handle(), of a reader. */
weir_status weir_reader_to_handle(weir_reader *reader, weir_handle **handle);

/** As weir_writer_to_handle(), of a writer of records. */
weir_status weir_record_writer_to_handle(weir_record_writer *writer, weir_handle **handle);

/** As weir_writer_to_handle(), of a reader of records. */
weir_status weir_record_reader_to_handle(weir_record_reader *reader, weir_handle **handle);

/**
 * Writes the handle as a text such as "writer 5 6", for the arguments or the environment of a program
 * that is executed next: its descriptors stay open over exec from now on. 40 bytes are enough. The
 * program makes a handle of it by weir_handle_from_text(). This process frees its own after fork().
 */
weir_status weir_handle_to_text(const weir_handle *handle,
                                char *text,
                                size_t size);

/**
 * Makes a handle of a text that weir_handle_to_text() has written in the program before this one. Its
 * descriptors belong to the handle from now on.
 */
weir_status weir_handle_from_text(const char *text,
                                  weir_handle **handle);

/**
 * Sends the end over a connected unix socket, without waiting, and empties the handle. Of a port's
 * handle a copy is sent, and it stays.
 */
weir_status weir_handle_send(weir_handle *handle, int socket);

/** Receives an end that was sent over a connected unix socket, and waits for it. */
weir_status weir_handle_receive(int socket, weir_handle **handle);

/** Receives the handle of a port that was sent over a connected unix socket, and waits for it. */
weir_status weir_port_handle_receive(int socket, weir_handle **handle);

/** Frees a handle. */
void weir_handle_free(weir_handle *handle);

/* ------------------------------------------------------------------------------------------------
 * Listeners: pipes and channels between strangers, by a path.
 * ------------------------------------------------------------------------------------------------ */

/** Listens at a path, which only processes of this user reach. The path goes when the listener does. */
weir_status weir_listen(const char *path, weir_listener **listener);

/** Waits for the next weir_writer_connect(). */
weir_status weir_accept_reader(const weir_listener *listener,
                               int64_t timeout_ns,
                               weir_reader **reader);

/** Waits for the next weir_record_writer_connect(). */
weir_status weir_accept_record_reader(const weir_listener *listener,
                                      int64_t timeout_ns,
                                      weir_record_reader **reader);

/** Waits for the next weir_duplex_connect(). */
weir_status weir_accept_duplex(const weir_listener *listener,
                               int64_t timeout_ns,
                               weir_record_writer **writer,
                               weir_record_reader **reader);

/**
 * Stores a descriptor for poll() and epoll, which belongs to the listener. It is readable until an
 * accept with timeout 0 fails with WEIR_WOULD_BLOCK, and again once somebody connects. Ask for it
 * before other threads accept.
 */
weir_status weir_listener_descriptor(weir_listener *listener, int *descriptor);

/** Frees the listener and removes its path. */
void weir_listener_free(weir_listener *listener);

/* ------------------------------------------------------------------------------------------------
 * Ports: many writers, one reader, a name.
 * ------------------------------------------------------------------------------------------------ */

/**
 * Makes a port and listens. A name with a '/' is a path; any other lies in one directory of the user.
 * A named port never ends by itself.
 */
weir_status weir_port_create(const char *name,
                             const weir_port_options *options,
                             weir_port **port);

/**
 * Makes a port without a name, and a handle by which children open writers to it. It ends once all
 * copies of the handle are closed, in all processes, and its last writer is gone: weir_port_receive()
 * fails with WEIR_CLOSED then.
 */
weir_status weir_port_unnamed(const weir_port_options *options,
                              weir_port **port,
                              weir_handle **handle);

/**
 * Receives the next message of any writer, or the end of a writer, waiting for it. With
 * WEIR_TOO_SMALL the message stays.
 */
weir_status weir_port_receive(weir_port *port,
                              void *buffer,
                              size_t size,
                              int64_t timeout_ns,
                              weir_received *received);

/** Stores how many writers are open, and how many of them wait for room. */
weir_status weir_port_counts(weir_port *port, size_t *open, size_t *waiting);

/** Shuts the writer of this number out: nothing more comes from it but its end. */
weir_status weir_port_shut_out(weir_port *port, uint64_t writer);

/** As weir_writer_descriptor(): receive with timeout 0 until that fails with WEIR_WOULD_BLOCK. */
weir_status weir_port_descriptor(weir_port *port, int *descriptor);

/** Frees the port: its name goes, and its writers find it closed. */
void weir_port_free(weir_port *port);

/** Connects to the port of this name, and waits for its reader if there is none yet. */
weir_status weir_port_writer_connect(const char *name,
                                     const weir_options *options,
                                     int64_t timeout_ns,
                                     weir_port_writer **writer);

/** Opens a writer to a port without a name. The handle stays, for more writers. */
weir_status weir_port_writer_open(const weir_handle *handle,
                                  const weir_options *options,
                                  weir_port_writer **writer);

/** Sends a message, waiting for room. It is sent whole or not at all. */
weir_status weir_port_send(weir_port_writer *writer,
                           const void *message,
                           size_t count,
                           int64_t timeout_ns);

/** As weir_writer_descriptor(): send with timeout 0 until that fails with WEIR_WOULD_BLOCK. */
weir_status weir_port_writer_descriptor(weir_port_writer *writer, int *descriptor);

/** Stores the account of the writer. */
weir_status weir_port_writer_account(weir_port_writer *writer, weir_account *account);

/** Frees the writer: the reader receives what was sent, and then the end of this writer. */
void weir_port_writer_free(weir_port_writer *writer);

/* ------------------------------------------------------------------------------------------------
 * Flags: 64 of them in one word, to set, clear and wait for.
 *
 * A forked child shares the flags of its parent.
 * ------------------------------------------------------------------------------------------------ */

/**
 * Makes flags in shared memory, for this process, the children that it forks, and those that get the
 * descriptor.
 */
weir_status weir_flags_create(weir_flags **flags);

/**
 * Opens the flags of this path. If there are none, makes them, all clear, for this user alone. They
 * exist until the file is removed. Who may write the file is trusted not to truncate it: that would
 * end its users by SIGBUS.
 */
weir_status weir_flags_named(const char *path, weir_flags **flags);

/** Opens flags by a copy of the descriptor of their memory. */
weir_status weir_flags_open(int memory, weir_flags **flags);

/**
 * Stores the descriptor of the memory, for other processes. It belongs to the flags, is closed on
 * exec, and cannot be polled.
 */
weir_status weir_flags_memory(const weir_flags *flags, int *memory);

/**
 * Sets the flags of the mask and wakes those that wait for them. `before`, which may be NULL, gets the
 * state before.
 */
weir_status weir_flags_set(const weir_flags *flags,
                           uint64_t mask,
                           uint64_t *before);

/** Clears the flags of the mask. `before`, which may be NULL, gets the state before. */
weir_status weir_flags_clear(const weir_flags *flags, uint64_t mask, uint64_t *before);

/** Stores the state. */
weir_status weir_flags_read(const weir_flags *flags, uint64_t *state);

/**
 * Waits until any flag of the mask is set. `how` is 0, WEIR_ALL, WEIR_CLEAR, or both of these. `found`,
 * which may be NULL, gets the flags of the mask that were set.
 */
weir_status weir_flags_wait(const weir_flags *flags,
                            uint64_t mask,
                            uint32_t how,
                            int64_t timeout_ns,
                            uint64_t *found);

/** Frees these flags. Others that share them keep them. */
void weir_flags_free(weir_flags *flags);

/* ------------------------------------------------------------------------------------------------
 * One wait for several ends, flags and descriptors.
 *
 * Each is added once, with a number. The ends stay the caller's, who uses and frees them as before; one
 * that is freed leaves the wait by itself. Between two calls they are free to be used; while
 * weir_wait_for() waits, no other thread may use them.
 * ------------------------------------------------------------------------------------------------ */

/** Makes an empty wait. */
weir_status weir_wait_create(weir_wait **wait);

/**
 * Adds a writer: it is ready while there is room, for a byte or as much as weir_wait_want() says, and
 * once its reader is gone.
 */
weir_status weir_wait_add_writer(weir_wait *wait,
                                 weir_writer *writer,
                                 uint64_t number);

/** Adds a reader: it is ready while there is something to read, and once its writer is gone. */
weir_status weir_wait_add_reader(weir_wait *wait, weir_reader *reader, uint64_t number);

/** Adds a writer of records, which is ready as a writer is. */
weir_status weir_wait_add_record_writer(weir_wait *wait,
                                        weir_record_writer *record_writer,
                                        uint64_t number);

/** Adds a reader of records, which is ready as a reader is. */
weir_status weir_wait_add_record_reader(weir_wait *wait,
                                        weir_record_reader *record_reader,
                                        uint64_t number);

/** Adds a port: it is ready while there is a message or the end of a writer. */
weir_status weir_wait_add_port(weir_wait *wait, weir_port *port, uint64_t number);

/** Adds a writer to a port, which is ready as a writer is. */
weir_status weir_wait_add_port_writer(weir_wait *wait,
                                      weir_port_writer *port_writer,
                                      uint64_t number);

/** Adds flags. `how` is 0 for any of the mask, WEIR_ALL for all at once. Waiting does not clear them. */
weir_status weir_wait_add_flags(weir_wait *wait,
                                const weir_flags *flags,
                                uint64_t mask,
                                uint32_t how,
                                uint64_t number);

/** Adds a copy of a descriptor. `what` is WEIR_TO_READ or WEIR_TO_WRITE. */
weir_status weir_wait_add_descriptor(weir_wait *wait, int file, uint32_t what, uint64_t number);

/**
 * Sets how much room the wait waits for at a writer: for `bytes` of a stream, for a record of `bytes`.
 * At first it is one byte.
 */
weir_status weir_wait_want(weir_wait *wait,
                           uint64_t number,
                           size_t bytes);

/** Removes what has this number. An end stays open. */
weir_status weir_wait_remove(weir_wait *wait, uint64_t number);

/**
 * Waits until something is ready. Stores the numbers of what is ready, `size` of them at most, in the
 * order of adding, and how many it stored. What is ready stays so until it was dealt with.
 */
weir_status weir_wait_for(weir_wait *wait,
                          uint64_t *numbers,
                          size_t size,
                          int64_t timeout_ns,
                          size_t *count);

/** Frees a wait. What was added to it stays. */
void weir_wait_free(weir_wait *wait);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEIR_H */
