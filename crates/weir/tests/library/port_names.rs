//! Names of ports, who may use them, and their limits (docs/contracts/port.md).

use crate::common;
use crate::common::{goes_well, hear, kill, place, say, say_outcome, start, start_as, until};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use weir::{Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions};

fn port(name: &Path) -> weir::Result<Port> {
    Port::create(name, &PortOptions::new())
}

fn writer(name: &Path) -> weir::Result<PortWriter> {
    PortWriter::connect(name, &PortWriterOptions::new())
}

/// The kind and the text of an error.
fn failure<T>(result: weir::Result<T>) -> (ErrorKind, String) {
    let error = result.err().expect("refused");
    (error.kind(), error.to_string())
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let input = std::io::stdin();
    match words[..] {
        // Makes a port, reports that, and does nothing.
        ["hold", name] => {
            let port = port(Path::new(name)).expect("a port");
            say(&input, b"up");
            hear(&input);
            drop(port);
        }
        // Makes a port, with a child that keeps everything it inherits until the test ends.
        ["orphan", name] => {
            let _port = port(Path::new(name)).expect("a port");
            weir_measure::sys::fork::orphan(input.as_fd()).expect("a child");
            say(&input, b"up");
            loop {
                std::thread::park();
            }
        }
        ["try", name] => {
            let error = writer(Path::new(name)).map(drop).err();
            say(&input, error.map_or("ok".into(), |error| error.to_string()).as_bytes());
        }
        // Listens at a name, and may not write to any file.
        ["no-space", name] => {
            let none = Rlimit { current: Some(0), ..getrlimit(Resource::Fsize) };
            setrlimit(Resource::Fsize, none).expect("limited");
            let error = weir::Listener::bind(name).map(drop).expect_err("nothing can be written");
            say(&input, error.to_string().as_bytes());
        }
        ["few-files", name] => say_outcome(with_few_files(Path::new(name))),
        _ => panic!("no role: {role}"),
    }
}

fn start_up(role: &str) -> (Child, OwnedFd) {
    let (child, socket) = start(role);
    assert_eq!(hear(&socket), b"up");
    (child, socket)
}

#[test]
fn names_are_checked_and_leave_nothing() {
    let (directory, name) = place();
    for bad in ["", "/", "a/", "x/..", "a/.", "b.lock", "."] {
        assert_eq!(failure(port(Path::new(bad))).0, ErrorKind::Invalid, "'{bad}'");
        assert_eq!(failure(writer(Path::new(bad))).0, ErrorKind::Invalid, "'{bad}'");
    }
    let long = directory.path().join("n".repeat(120));
    let (kind, text) = failure(port(&long));
    assert!(kind == ErrorKind::Invalid && text.contains("too long"), "{text}");
    let missing = directory.path().join("none/port");
    assert_eq!(failure(port(&missing)).0, ErrorKind::Os);
    let open = port(&name).expect("a port");
    let there = |beside: &str| Path::new(&format!("{}{beside}", name.display())).exists();
    assert!(there("") && there(".lock"));
    assert_eq!(open.path(), name);
    assert_eq!(weir::PortName::list(Some(directory.path())).expect("names").len(), 1);
    drop(open);
    assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 0);
}

/// With one descriptor too few the socket was bound and left there, without a lock. All later readers
/// took it for another program's.
#[test]
fn a_reader_that_lacks_descriptors_leaves_nothing() {
    let (_directory, name) = place();
    goes_well(&format!("few-files {}", name.display()));
}

fn with_few_files(name: &Path) -> Result<(), String> {
    // The lowest number that is free: this process may have inherited some beyond it.
    let next = std::fs::File::open("/dev/null").map_err(|why| why.to_string())?;
    let held = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
    drop(next);
    let (all, is_of_dead) = (getrlimit(Resource::Nofile), name.exists());
    for most in held..held + 20 {
        let few = Rlimit { current: Some(most), ..all };
        setrlimit(Resource::Nofile, few).map_err(|why| why.to_string())?;
        // A listener takes its name before it makes anything else.
        let open =
            if is_of_dead { weir::Listener::bind(name).map(drop) } else { port(name).map(drop) };
        match open {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Os => {}
            Err(error) => return Err(error.to_string()),
        }
        if name.exists() && !is_of_dead {
            return Err(format!("with {} more descriptors its socket is left", most - held));
        }
    }
    Err("it never had enough".into())
}

#[test]
fn one_name_one_reader() {
    let (_directory, name) = place();
    let _port = port(&name).expect("a port");
    let (kind, text) = failure(port(&name));
    let pid = std::process::id();
    let expected = format!("cannot make port '{}': process {pid} is its reader", name.display());
    assert_eq!((kind, text), (ErrorKind::Taken, expected));
    let (kind, text) = failure(weir::Port::remove(&name));
    assert!(kind == ErrorKind::Taken && text.contains("is its reader"), "{text}");
    writer(&name).expect("it still works");
}

#[test]
fn what_a_dead_reader_left_is_replaced() {
    let (directory, name) = place();
    let (mut child, _socket) = start_up(&format!("hold {}", name.display()));
    let pid = child.id() as i32;
    let names = || weir::PortName::list(Some(directory.path())).expect("names");
    assert_eq!(names()[0].reader, Some(pid));
    kill(&mut child);
    assert_eq!((names()[0].path.clone(), names()[0].reader), (name.clone(), None));
    assert_eq!(failure(writer(&name)).0, ErrorKind::NoReader);
    let mut port = port(&name).expect("replaced");
    writer(&name).expect("a writer").send(b"x").expect("sent");
    let time = Duration::from_secs(10);
    let received = port.receive_timeout(&mut [0; 8], time).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 1 });
    drop(port);
    assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 0);
}

/// It was listed and shown as a port, alive or dead.
#[test]
fn the_name_of_another_kind_is_no_port() {
    let (directory, name) = place();
    let _port = port(&name).expect("a port");
    let others = ["pipes", "dead"].map(|other| directory.path().join(other));
    let _listener = weir::Listener::bind(&others[0]).expect("a listener");
    let dead = "weir 2147483647 1 0 0 mpx\n";
    std::fs::write(others[1].with_extension("lock"), dead).expect("written");
    let listed = weir::PortName::list(Some(directory.path())).expect("names");
    let paths: Vec<_> = listed.into_iter().map(|port| port.path).collect();
    assert_eq!(paths, std::slice::from_ref(&name));
    assert!(weir::stat::port(&name).is_ok());
    for other in others {
        let error = weir::stat::port(&other).expect_err("no port");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

/// One that could not record itself in the lock had emptied it before: then the socket beside it counted
/// as another program's, for all who came later. It also died of SIGXFSZ.
#[test]
fn who_cannot_record_itself_leaves_a_dead_reader_recorded() {
    let (_directory, name) = place();
    let (mut child, _socket) = start_up(&format!("hold {}", name.display()));
    kill(&mut child);
    let (mut child, socket) = start(&format!("no-space {}", name.display()));
    let said = String::from_utf8_lossy(&hear(&socket)).into_owned();
    assert!(said.contains("File too large"), "'{said}'");
    child.wait().expect("reaped");
    port(&name).expect("replaced");
}

/// One that could not remove a dead reader's socket removed the lock, by which that is known: then the
/// socket was another program's, for all who came later.
#[test]
fn who_lacks_descriptors_leaves_a_dead_reader_recorded() {
    let (_directory, name) = place();
    let (mut child, _socket) = start_up(&format!("hold {}", name.display()));
    kill(&mut child);
    goes_well(&format!("few-files {}", name.display()));
}

/// A process that may not read its own /proc/self/stat has recorded no time of its start. It was taken for
/// another one that had its number before, and a second reader took its name.
#[test]
fn a_reader_that_does_not_know_when_it_started_lives() {
    let (_directory, name) = place();
    let _port = port(&name).expect("a port");
    let lock = format!("{}.lock", name.display());
    let text = std::fs::read_to_string(&lock).expect("recorded");
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    words[2] = "0";
    std::fs::write(&lock, words.join(" ")).expect("written");
    let (kind, text) = failure(port(&name));
    assert!(kind == ErrorKind::Taken && text.contains("is its reader"), "{text}");
}

#[test]
fn what_a_dead_reader_left_is_removed_when_asked() {
    let (directory, name) = place();
    let (mut child, _socket) = start_up(&format!("hold {}", name.display()));
    kill(&mut child);
    weir::Port::remove(&name).expect("removed");
    assert_eq!(std::fs::read_dir(directory.path()).expect("there").count(), 0);
    assert_eq!(failure(weir::Port::remove(&name)).0, ErrorKind::Invalid);
}

/// The lock then named the process that had tried, though no port is there.
#[test]
fn a_lock_is_removed_alone_where_another_file_has_the_name() {
    let (_directory, name) = place();
    std::fs::write(&name, "mine").expect("a file");
    let lock = format!("{}.lock", name.display());
    std::fs::write(&lock, "weir 1 1\n").expect("of a dead reader");
    let (kind, text) = failure(weir::Port::remove(&name));
    assert!(kind == ErrorKind::Taken && text.ends_with("not a socket has the name"), "{text}");
    let (kind, text) = failure(weir::Port::remove(&name));
    assert!(kind == ErrorKind::Invalid && text.contains("there is no port"), "{text}");
    assert!(!Path::new(&lock).exists());
    assert_eq!(std::fs::read(&name).expect("left alone"), b"mine");
}

/// A program listens where a dead reader has left its lock, and accepts nobody. Its queue is full, and a
/// connect to it waited for ever.
#[test]
fn a_program_that_accepts_nobody_holds_up_no_reader() {
    let (_directory, name) = place();
    std::fs::write(format!("{}.lock", name.display()), "weir 1 1\n").expect("of a dead reader");
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = |flags| socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
    let (listening, address) = (socket(flags), SocketAddrUnix::new(&name).expect("short"));
    bind(&listening, &address).expect("bound");
    listen(&listening, 1).expect("listens");
    let waiting = std::iter::repeat_with(|| socket(flags | SocketFlags::NONBLOCK));
    let waiting: Vec<_> =
        waiting.take_while(|socket| connect(socket, &address).is_ok()).take(100).collect();
    assert!(waiting.len() < 100, "its queue is full");
    let (told, tells) = std::sync::mpsc::channel();
    let theirs = name.clone();
    std::thread::spawn(move || told.send(failure(port(&theirs))));
    let (kind, text) = tells.recv_timeout(Duration::from_secs(30)).expect("it does not wait");
    assert!(kind == ErrorKind::Taken && text.contains("another program"), "{text}");
}

/// A child forked without the handlers keeps lock, socket and connections of a reader that died.
#[test]
fn what_a_dead_readers_child_keeps_is_replaced_too() {
    let (_directory, name) = place();
    let (mut child, socket) = start_up(&format!("orphan {}", name.display()));
    let mut caught = writer(&name).expect("a writer");
    kill(&mut child);
    until("the writer sees it", || caught.try_send(b"x").is_err());
    assert_eq!(failure(caught.try_send(b"x")).0, ErrorKind::Closed);
    assert_eq!(failure(writer(&name)).0, ErrorKind::NoReader);
    let mut port = port(&name).expect("replaced");
    writer(&name).expect("a writer").send(b"x").expect("sent");
    let time = Duration::from_secs(10);
    port.receive_timeout(&mut [0; 8], time).expect("received");
    drop(socket);
}

#[test]
fn foreign_files_are_left_alone() {
    let (directory, name) = place();
    std::fs::write(&name, "mine").expect("a file");
    let (kind, text) = failure(port(&name));
    assert!(kind == ErrorKind::Taken && text.contains("not a socket"), "{text}");
    assert_eq!(std::fs::read_to_string(&name).expect("there"), "mine");
    // A writer was told that no reader listened, and how to start one, which is refused.
    let (kind, text) = failure(writer(&name));
    assert!(kind == ErrorKind::Taken && text.contains("not a socket"), "{text}");

    let socketed = directory.path().join("theirs");
    let kind = SocketType::SEQPACKET;
    let theirs =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&theirs, &SocketAddrUnix::new(&socketed).expect("short")).expect("bound");
    listen(&theirs, 4).expect("listening");
    let (kind, text) = failure(port(&socketed));
    assert!(kind == ErrorKind::Taken && text.contains("another program"), "{text}");
    assert!(socketed.exists());

    // Nor are the sockets of those that are not listening yet, or that were left by them.
    for kind in [SocketType::SEQPACKET, SocketType::STREAM, SocketType::DGRAM] {
        let dead = directory.path().join("dead");
        let theirs = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let theirs = theirs.expect("a socket");
        bind(&theirs, &SocketAddrUnix::new(&dead).expect("short")).expect("bound");
        for left in [Some(theirs), None] {
            let (kind, text) = failure(port(&dead));
            assert!(kind == ErrorKind::Taken && text.contains("another program"), "{text}");
            assert!(dead.exists() && !directory.path().join("dead.lock").exists());
            drop(left);
        }
        std::fs::remove_file(&dead).expect("there");
    }

    let locked = directory.path().join("locked");
    std::fs::write(directory.path().join("locked.lock"), "a lock of another's").expect("a file");
    let (kind, text) = failure(port(&locked));
    assert!(kind == ErrorKind::Taken && text.contains("the path of its lock"), "{text}");
    std::fs::create_dir(directory.path().join("dir.lock")).expect("a directory");
    assert_eq!(failure(port(&directory.path().join("dir"))).0, ErrorKind::Taken);
    let text = std::fs::read_to_string(directory.path().join("locked.lock")).expect("there");
    assert_eq!(text, "a lock of another's");
}

#[test]
fn permissions_decide() {
    let (directory, name) = place();
    let open = |mode: u32| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(directory.path(), open(0o755)).expect("open to all");
    let mode = |name: &Path| std::fs::metadata(name).expect("there").permissions().mode() & 0o777;
    if rustix::process::getuid().is_root() {
        let _own = port(&name).expect("a port");
        assert_eq!(mode(&name), 0o600);
        let shared = directory.path().join("shared");
        let options = PortOptions::new().mode(0o622);
        let mut port = Port::create(&shared, &options).expect("a port");
        assert_eq!(mode(&shared), 0o622, "whatever the umask");
        let others = |name: &Path| {
            let (mut child, socket) =
                start_as(&format!("try {}", name.display()), 65_534, directory.path());
            let said = String::from_utf8(hear(&socket)).expect("text");
            child.wait().expect("reaped");
            said
        };
        assert!(others(&name).contains("Permission denied"));
        assert_eq!(others(&shared), "ok");
        let closed = port.receive_timeout(&mut [0; 8], Duration::from_secs(10)).expect("it came");
        assert_eq!(closed.event, Event::Closed(Ending::Closed));
    } else {
        let _port = Port::create(&name, &PortOptions::new().mode(0)).expect("a port");
        assert_eq!(failure(writer(&name)).0, ErrorKind::Os);
    }
}

#[test]
fn opening_needs_a_reader() {
    let (_directory, name) = place();
    let (kind, text) = failure(writer(&name));
    let expected = format!("cannot open port '{}': no reader is listening", name.display());
    assert_eq!((kind, text), (ErrorKind::NoReader, expected));
    let time = |ms| PortWriterOptions::new().connect_timeout(Duration::from_millis(ms));
    assert_eq!(failure(PortWriter::connect(&name, &time(30))).0, ErrorKind::NoReader);
    let theirs = name.clone();
    let waiting = std::thread::spawn(move || {
        let mut writer = PortWriter::connect(&theirs, &time(10_000)).expect("one came");
        writer.send(b"at last").expect("sent");
    });
    let mut port = port(&name).expect("a port");
    let received = port.receive_timeout(&mut [0; 8], Duration::from_secs(10)).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 7 });
    waiting.join().expect("no panic");
}

#[test]
fn a_paused_reader_can_be_written_to() {
    let (_directory, name) = place();
    let (mut child, _socket) = start_up(&format!("hold {}", name.display()));
    let pid = rustix::process::Pid::from_child(&child);
    common::stop(pid);
    let mut writer = writer(&name).expect("opened");
    writer.send(b"kept").expect("sent");
    assert!(!writer.is_let_in().expect("mine"));
    while writer.try_send(&[0; 1000]).is_ok() {}
    assert_eq!(failure(writer.try_send(&[0; 1000])).0, ErrorKind::WouldBlock);
    kill(&mut child);
    until("its death is seen", || failure(writer.try_send(&[0; 1000])).0 == ErrorKind::Closed);
}

#[test]
fn too_many_writers_are_refused() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new().most_writers(2)).expect("a port");
    let letting_in = std::thread::spawn({
        let name = name.clone();
        move || {
            let kept = [writer(&name).expect("first"), writer(&name).expect("second")];
            let mut third = writer(&name);
            // Refused when it opened, or when it sends, if the reader was slow.
            while let Ok(writer) = &mut third
                && let Ok(()) = writer.try_send(b"x")
            {
                std::thread::yield_now();
            }
            let error = match third {
                Err(error) => error,
                Ok(mut writer) => writer.try_send(b"x").expect_err("refused"),
            };
            (kept, error.kind(), error.to_string())
        }
    });
    while !letting_in.is_finished() {
        let _ = port.receive_timeout(&mut [0; 8], Duration::from_millis(10));
    }
    let (kept, kind, text) = letting_in.join().expect("no panic");
    assert_eq!(kind, ErrorKind::Refused);
    assert!(text.ends_with("it has 2 writers already, its limit"), "{text}");
    drop(kept);
    for _ in 0..2 {
        port.receive_timeout(&mut [0; 8], Duration::from_secs(10)).expect("an end");
    }
    let again = writer(&name);
    port.counts().expect("lets it in");
    again.expect("a place is free again").send(b"x").expect("sent");
}

/// A client that connects and sends nothing, or something invalid.
fn stranger(name: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    connect(&socket, &SocketAddrUnix::new(name).expect("short")).expect("connected");
    socket
}

#[test]
fn an_open_without_a_ring_holds_up_nobody() {
    let (_directory, name) = place();
    let mut port = port(&name).expect("a port");
    let silent = stranger(&name);
    let babbling = stranger(&name);
    say(&babbling, b"weir-port");
    let wrong = stranger(&name);
    say(&wrong, b"hello");
    let mut honest = writer(&name).expect("a writer");
    honest.send(b"x").expect("sent");
    let time = Duration::from_secs(10);
    assert_eq!(
        port.receive_timeout(&mut [0; 8], time).expect("received").event,
        Event::Message { bytes: 1 }
    );
    for refused in [&babbling, &wrong] {
        let said = String::from_utf8(hear(refused)).expect("text");
        assert_eq!(said, "weir-no its reader received no valid ring");
    }
    // The silent client is dropped after five seconds, while the port only waits.
    let begun = std::time::Instant::now();
    let patience = Duration::from_millis(100);
    let mut asked = [rustix::event::PollFd::new(&silent, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    while rustix::event::poll(&mut asked, Some(&now)) == Ok(0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is dropped in time");
        let _ = port.receive_timeout(&mut [0; 8], patience);
    }
    assert_eq!(hear(&silent), b"weir-no its reader received no ring in time");
    honest.send(b"y").expect("sent");
    port.receive_timeout(&mut [0; 8], time).expect("received");
}

#[test]
fn a_flood_of_opens_is_survived() {
    let (_directory, name) = place();
    let mut port = port(&name).expect("a port");
    let flood: Vec<_> = (0..300).map(|_| stranger(&name)).collect();
    let mut honest = writer(&name).expect("a writer");
    honest.send(b"x").expect("sent");
    let received = port.receive_timeout(&mut [0; 8], Duration::from_secs(10)).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 1 });
    let refused = flood.iter().filter(|socket| {
        let mut asked = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut asked, Some(&now)) == Ok(1)
    });
    assert!(refused.count() >= 300 - 128, "those that came first were sent away");
}
