//! `weir buffer`: that the bytes arrive, whatever its ends are, and how it ends
//! (docs/contracts/pool.md).

use crate::common::buffer::{Buffer, sample, with_mounts};
use crate::common::port::{Place, refused, said, sent};
use crate::common::until;
use crate::common::{WEIR, bound, have};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;

fn with_file(size: usize) -> Place {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(size)).expect("written");
    place
}

#[test]
fn bytes_come_out_as_they_went_in() {
    for size in [0, 1, 4095, 4096, 65_536, 65_537, 1 << 20, 5_000_011] {
        let place = with_file(size);
        for script in [
            "cat in | $WEIR buffer | cat > out",
            "cat in | $WEIR buffer > out",
            "$WEIR buffer < in | cat > out",
            "$WEIR buffer < in > out",
            "> out; cat in | $WEIR buffer >> out",
            "cat in | $WEIR buffer --no-spill --memory 1M | cat > out",
        ] {
            sent(&place.bash(&format!("set -eo pipefail; {script}; cmp in out")));
        }
    }
}

#[test]
fn far_more_than_memory_holds_passes() {
    let place = Place::new();
    let bytes = sample(50_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill .");
    let fed = buffer.feed(bytes.clone());
    // This is more than two pipes of 1 MiB hold.
    until("it takes what nobody reads", || fed.bytes() > 2_500_000);
    assert!(buffer.read() == bytes && fed.all());
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn what_is_there_passes_at_once() {
    let mut buffer = Buffer::start(&Place::new(), "");
    let (mut input, mut output) =
        (buffer.input.take().expect("open"), buffer.output.take().expect("open"));
    for count in 1..100_u8 {
        let line = vec![count; usize::from(count) * 50];
        input.write_all(&line).expect("written");
        let mut got = vec![0; line.len()];
        output.read_exact(&mut got).expect("read");
        assert_eq!(got, line);
    }
    drop(input);
    assert_eq!(buffer.end().0.code(), Some(0));
}

#[test]
fn fifos_are_read_and_written() {
    let place = with_file(3_000_000);
    let script = "set -e; mkfifo a b; cat in > a & $WEIR buffer < a > b & job=$!; cat b > out;
        wait $job; cmp in out";
    sent(&place.bash(script));
    // The same holds for a FIFO that is held open for both directions.
    let script = "set -e; exec 3<>a; head -c 5000 in >&3; $WEIR buffer <&3 | head -c 5000 | cmp - \
        <(head -c 5000 in)";
    sent(&place.bash(script));
}

#[test]
fn sockets_are_read_and_written() {
    let place = Place::new();
    let bytes = sample(7_000_000);
    let (ours, its) = UnixStream::pair().expect("a pair");
    let mut command = place.command(WEIR);
    let both = its.try_clone().expect("copied");
    command.args(["buffer", "--memory=1M"]);
    command.stdin(std::os::fd::OwnedFd::from(its)).stdout(std::os::fd::OwnedFd::from(both));
    let mut child = command.spawn().expect("weir starts");
    bound(&child);
    drop(command);
    let mut input = ours.try_clone().expect("copied");
    let sent_bytes = bytes.clone();
    let writer = std::thread::spawn(move || {
        input.write_all(&sent_bytes).expect("written");
        input.shutdown(Shutdown::Write).expect("shut");
    });
    let mut got = Vec::new();
    (&ours).read_to_end(&mut got).expect("read");
    writer.join().expect("no panic");
    assert!(got == bytes && child.wait().expect("ends").success());
}

#[test]
fn a_socket_is_one_end_and_a_pipe_the_other() {
    use std::net::{TcpListener, TcpStream};
    let place = with_file(7_000_000);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("known");
    let mut buffers = Vec::new();
    for (script, at) in [("cat in | $WEIR buffer", 1), ("$WEIR buffer | cat > out", 0)] {
        let stream = std::os::fd::OwnedFd::from(TcpStream::connect(address).expect("connected"));
        let mut command = place.bash_command(script);
        let _ = if at == 0 { command.stdin(stream) } else { command.stdout(stream) };
        buffers.push((command.spawn().expect("bash starts"), listener.accept().expect("it").0));
    }
    let [(mut first, mut from), (mut second, mut to)] = buffers.try_into().expect("two");
    std::io::copy(&mut from, &mut to).expect("copied");
    drop(to);
    assert!(first.wait().expect("ends").success() && second.wait().expect("ends").success());
    sent(&place.bash("cmp in out"));
}

#[test]
fn devices_are_read_and_written() {
    let place = Place::new();
    sent(&place.bash(
        "set -e; $WEIR buffer < /dev/null | cmp - /dev/null; yes | head -c 3M |
        $WEIR buffer > /dev/null; $WEIR buffer < /dev/null > /dev/null",
    ));
    let script = "$WEIR buffer --memory 1M --no-spill < /dev/zero | head -c 3M | wc -c";
    assert_eq!(place.bash(script).stdout, b"3145728\n");
    let output = place.bash("echo lost | $WEIR buffer > /dev/full");
    refused(&output, 1, "weir: cannot write to standard output: No space left on device");
}

#[test]
fn terminals_are_read_and_written() {
    if !have(&["script"]) {
        return;
    }
    let place = Place::new();
    let script = "printf 'a\\nb\\n' | script -qec '$WEIR buffer > out' /dev/null > /dev/null;
        cat out; seq 20000 > in; script -qec '$WEIR buffer --stats < in' /dev/null < /dev/null |
        tr -d '\\r' > out; head -n 20000 out | cmp - in; tail -n +20001 out | grep -c engine";
    let output = place.bash(script);
    assert_eq!((output.stdout.as_slice(), said(&output).as_str()), (&b"a\nb\n1\n"[..], ""));
}

#[test]
fn it_dies_of_sigpipe_when_its_reader_has_gone() {
    let place = Place::new();
    let script = "yes | $WEIR buffer | head -c 1 > /dev/null; echo ${PIPESTATUS[*]}";
    let output = place.bash(script);
    assert_eq!((output.stdout.as_slice(), said(&output).as_str()), (&b"141 141 0\n"[..], ""));
    // It is idle, first without bytes and then with a backlog only.
    for bytes in [0, 5_000_000] {
        let mut buffer = Buffer::start(&place, "--memory 8M");
        let fed = buffer.feed(sample(bytes));
        until("all is taken", || fed.bytes() == bytes as u64);
        let held = buffer.input.take();
        buffer.output = None;
        let (status, said) = buffer.end();
        assert_eq!((status.signal(), said.as_str()), (Some(13), ""), "{bytes}");
        drop(held);
    }
}

#[test]
fn an_idle_buffer_dies_when_the_socket_it_writes_to_is_closed() {
    let place = Place::new();
    let (ours, its) = UnixStream::pair().expect("a pair");
    let (reader, mut input) = std::io::pipe().expect("a pipe");
    let mut command = place.command(WEIR);
    command.arg("buffer").stdin(reader).stdout(std::os::fd::OwnedFd::from(its));
    let mut child = command.spawn().expect("weir starts");
    bound(&child);
    drop(command);
    input.write_all(b"x").expect("written");
    (&ours).read_exact(&mut [0]).expect("it runs");
    drop(ours);
    assert_eq!(child.wait().expect("ends").signal(), Some(13));
}

#[test]
fn an_ignored_sigpipe_makes_it_an_error() {
    let script = "trap '' PIPE; cat /dev/zero 2>&1 | $WEIR buffer --no-spill | head -c 1 > \
        /dev/null; exit ${PIPESTATUS[1]}";
    let output = Place::new().bash(script);
    refused(&output, 1, "weir: cannot write to standard output: Broken pipe");
}

#[test]
fn a_writer_that_is_killed_is_an_end_of_input() {
    let place = with_file(1_000_003);
    let script = "(cat in; kill -9 $BASHPID) | $WEIR buffer > out; test ${PIPESTATUS[1]} = 0 &&
        cmp in out";
    assert!(place.bash(script).status.success());
}

#[test]
fn it_dies_of_what_interrupts_it() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut buffer = Buffer::start(&Place::new(), "--stats");
        let fed = buffer.feed(sample(2_000_000));
        until("it runs", || fed.bytes() == 2_000_000);
        kill_process(Pid::from_child(&buffer.child), signal).expect("sent");
        assert_eq!(buffer.end().0.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn errors_at_its_ends_are_clear() {
    let place = Place::new();
    for (script, expected) in [
        ("$WEIR buffer <&-", "cannot read standard input: it is closed"),
        ("$WEIR buffer >&-", "cannot write to standard output: it is closed"),
        ("$WEIR buffer < .", "cannot read standard input: Is a directory"),
        ("echo | cat | $WEIR buffer 0> out", "cannot read standard input: Bad file descriptor"),
        ("echo > a; $WEIR buffer < a >> a", "is the same file that standard output appends to"),
        ("echo | $WEIR buffer 1< a", "cannot write to standard output: Bad file descriptor"),
    ] {
        refused(&place.bash(script), 1, expected);
    }
    sent(&place.bash("test $(echo kept | $WEIR buffer --stats 2>&-) = kept"));
}

#[test]
fn what_was_read_before_an_error_is_passed_on() {
    // A socket that is reset while it holds bytes that this side has not read.
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let its = TcpStream::connect(listener.local_addr().expect("known")).expect("connected");
    let (mut ours, _) = listener.accept().expect("it");
    let place = Place::new();
    let mut command = place.command(WEIR);
    (&its).write_all(b"never read").expect("written");
    command.arg("buffer").stdin(std::os::fd::OwnedFd::from(its));
    let mut running = place.start(command);
    ours.write_all(b"kept\n").expect("written");
    assert_eq!(running.line(), "kept\n");
    // Closing a socket with unread bytes resets it.
    drop(ours);
    let (status, out, err) = running.end();
    assert_eq!((status.code(), out), (Some(1), vec![]));
    assert!(err.contains("cannot read standard input: Connection reset"), "{err}");
}

#[test]
fn descriptions_that_others_share_stay_as_they_are() {
    use rustix::fs::{OFlags, fcntl_getfl};
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let (output, its) = std::io::pipe().expect("a pipe");
    let place = Place::new();
    let mut command = place.command(WEIR);
    command.arg("buffer").stdin(reader.try_clone().expect("copied"));
    command.stdout(its.try_clone().expect("copied"));
    let mut child = command.spawn().expect("weir starts");
    bound(&child);
    writer.write_all(b"x").expect("written");
    (&output).read_exact(&mut [0]).expect("it runs");
    for flags in [fcntl_getfl(&reader), fcntl_getfl(&its)] {
        assert!(!flags.expect("open").contains(OFlags::NONBLOCK));
    }
    drop(writer);
    assert!(child.wait().expect("ends").success());
}

#[test]
fn it_works_where_nothing_can_be_opened_anew() {
    let place = with_file(5_000_011);
    let script = "mount -t tmpfs none /proc && cat in | $WEIR buffer --memory 1M --no-spill |
        cat > out; cmp in out && yes | $WEIR buffer | head -c 1 > /dev/null";
    if let Some(output) = with_mounts(&place, script) {
        sent(&output);
    }
}

#[test]
fn many_buffers_work_in_one_pipeline_and_at_once() {
    let place = with_file(2_000_003);
    let chain = " | $WEIR buffer --memory 1M".repeat(12);
    sent(&place.bash(&format!("set -o pipefail; cat in{chain} | cmp - in")));
    let script = "for job in 1 2 3 4 5 6 7 8; do
        cat in | $WEIR buffer --memory 1M | cmp - in & jobs=\"$jobs $!\"
        done; for job in $jobs; do wait $job || exit 1; done";
    sent(&place.bash(script));
}
