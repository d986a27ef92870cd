//! Listeners, and processes that connect and hand nothing over (docs/contracts/pipe.md, 15).

use crate::common;
use crate::raw;
use rustix::fd::AsFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir::{ErrorKind, Listener, Options, Timeout};

/// Connections that come at once: more than a process under its limit has descriptors for.
const MANY: usize = 100;

/// Clients that send nothing, and clients that send something else, hold up nobody behind them, and
/// are disconnected in the end.
#[test]
fn who_is_silent_holds_up_nobody() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    let silent: Vec<_> = (0..40).map(|_| raw::dial(&name)).collect();
    let wrong: Vec<_> = (0..10).map(|_| raw::dial(&name)).collect();
    for socket in &wrong {
        raw::send(socket.as_fd(), b"weir-open", &[]);
    }
    let (came, comes) = channel();
    let accepting = std::thread::spawn(move || {
        for _ in 0..2 {
            let mut reader = listener.accept::<weir::Reader>().expect("a reader");
            let mut bytes = [0; 8];
            let count = reader.read(&mut bytes).expect("read");
            came.send(bytes[..count].to_vec()).expect("heard");
        }
        // This one is kept until the silent clients have been disconnected.
        let reader = listener.accept::<weir::RecordReader>().expect("a reader");
        drop((reader, listener));
    });
    for text in [&b"one"[..], b"two"] {
        let mut writer = weir::Writer::connect(&name, &Options::new()).expect("connected");
        writer.write(text).expect("written");
        let heard = comes.recv_timeout(Duration::from_secs(20)).expect("nobody is held up");
        assert_eq!(heard, text);
    }
    for socket in &wrong {
        assert!(common::hear(socket).starts_with(b"weir-no "), "it is told");
    }
    let begun = Instant::now();
    for socket in &silent {
        let said = common::hear(socket);
        assert!(said.starts_with(b"weir-no "), "{}", said.escape_ascii());
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "sent away after 5 s");
    let _writer = weir::RecordWriter::connect(&name, &Options::new()).expect("connected");
    accepting.join().expect("no panic");
}

/// Of a socket in the place of the lock it was said that there is no such device.
#[test]
fn a_lock_that_is_another_file_is_named() {
    let (_directory, name) = common::place();
    let lock = format!("{}.lock", name.display());
    let _other = std::os::unix::net::UnixListener::bind(&lock).expect("bound");
    let error = Listener::bind(&name).map(drop).expect_err("no lock");
    assert_eq!(error.kind(), ErrorKind::Taken, "{error}");
    assert!(error.to_string().contains("the path of its lock"), "{error}");
    assert!(std::path::Path::new(&lock).exists());
}

/// As the errors of other calls that would have to wait.
#[test]
fn an_error_that_nobody_has_connected_allocates_nothing() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    let accept = || listener.accept_timeout::<weir::Reader>(Timeout::Now).map(drop);
    drop(accept());
    let allocated = allocation_counter::measure(|| {
        let error = accept().expect_err("nobody");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
    assert_eq!(allocated.count_total, 0);
    let text =
        format!("cannot accept a connection at '{}': no process has connected", name.display());
    assert_eq!(accept().expect_err("nobody").to_string(), text);
}

/// Each of several threads that accept waits for as long as its own call says.
#[test]
fn who_waits_for_long_holds_up_no_other_thread() {
    let (_directory, name) = common::place();
    let listener = Arc::new(Listener::bind(&name).expect("bound"));
    let (came, comes) = channel();
    for _ in 0..2 {
        let (listener, came) = (listener.clone(), came.clone());
        std::thread::spawn(move || came.send(listener.accept::<weir::Reader>().map(drop)));
    }
    let (told, tells) = channel();
    let impatient = listener.clone();
    std::thread::spawn(move || {
        let kind_after = |timeout: Timeout| {
            let nobody = impatient.accept_timeout::<weir::Reader>(timeout).expect_err("nobody");
            nobody.kind()
        };
        // The others have begun to wait before the last of these.
        for _ in 0..100 {
            assert_eq!(kind_after(Duration::from_millis(5).into()), ErrorKind::TimedOut);
            assert_eq!(kind_after(Timeout::Now), ErrorKind::WouldBlock);
        }
        told.send(()).expect("heard");
        let last = impatient.accept_timeout::<weir::Reader>(Duration::from_secs(20));
        drop(last.expect("the third that comes"));
        told.send(()).expect("heard");
    });
    tells.recv_timeout(Duration::from_secs(20)).expect("it waits for nobody else");
    // Whoever of the three sleeps when these come, each thread gets one.
    let connect = || weir::Writer::connect(&name, &Options::new()).expect("connected");
    let _writers = [connect(), connect(), connect()];
    for _ in 0..2 {
        let got = comes.recv_timeout(Duration::from_secs(20)).expect("it accepts one");
        got.expect("a reader");
    }
    tells.recv_timeout(Duration::from_secs(20)).expect("it accepts one");
}

/// Halves of channels whose other halves never come.
#[test]
fn who_sends_halves_for_ever_delays_no_call() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let is_over = || over.load(Ordering::Relaxed) || began.elapsed() > Duration::from_secs(30);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let small = Options::new().capacity_bytes(4096);
                let (writer, _reader) = weir::Handle::stream_pair(&small).expect("made");
                let (memory, _) = writer.into_descriptors();
                for number in 0_u64.. {
                    if is_over() {
                        return;
                    }
                    let Ok(socket) = raw::try_dial(&name) else { continue };
                    let text = [b"weir-open>".as_slice(), &number.to_le_bytes()].concat();
                    raw::send(socket.as_fd(), &text, &[memory.as_fd()]);
                }
            });
        }
        for _ in 0..5 {
            let none = listener.accept_timeout::<weir::StreamDuplex>(Duration::from_millis(100));
            assert_eq!(none.expect_err("none is whole").kind(), ErrorKind::TimedOut);
        }
        over.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < Duration::from_secs(20));
    });
}

/// A listener let in all that had connected, and kept them for its next calls: two descriptors each. Of
/// more than it had descriptors for, the last were ended, though they had only to wait.
#[test]
fn who_waits_to_be_accepted_takes_no_descriptors() {
    common::goes_well("few-files");
}

fn few_files() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).map_err(failed)?;
    let small = Options::new().capacity_bytes(4096);
    let mut writers = Vec::new();
    for _ in 0..MANY {
        writers.push(weir::Writer::connect(&name, &small).map_err(failed)?);
    }
    let held = std::fs::read_dir("/proc/self/fd").map_err(|why| why.to_string())?.count() as u64;
    let few = Rlimit { current: Some(held + 60), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, few).map_err(|why| why.to_string())?;
    for number in 0..MANY {
        let time = Duration::from_secs(10);
        let _reader = listener.accept_timeout::<weir::Reader>(time).map_err(failed)?;
        let written = writers.remove(0).write(b"x");
        written.map_err(|error| format!("number {number}: {error}"))?;
    }
    Ok(())
}

#[test]
fn in_a_role() {
    if common::role().is_some() {
        common::say_outcome(few_files());
    }
}
