//! The cost of a hostile writer's or peer's memory to the reader (docs/contracts/port.md, mpx.md): the
//! reader pays for no memory that the peer has not paid for, and the peer can take none away later.

mod common;

use common::{hear, kill, place, say, start};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir::{Event, Mpx, MpxOptions, Options, Port, PortOptions, PortWriter, PortWriterOptions};

/// The claimed bytes of each of the two areas.
const AREA_BYTES: u64 = 32 << 20;
const PAGE: u64 = 4096;

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let (kind, name) = role.split_once(' ').expect("a name");
    let input = std::io::stdin();
    assert_eq!(hear(&input), b"go");
    if kind == "mpx" {
        let mut mpx = Mpx::create(name, &MpxOptions::new()).expect("an mpx");
        say(&input, b"up");
        loop {
            let _ = mpx.receive_each_timeout(&mut [0; 4096], Duration::from_millis(20), |_| {});
        }
    }
    let mut port = Port::create(name, &PortOptions::new()).expect("a port");
    say(&input, b"up");
    let mut buffer = [0; 4096];
    loop {
        let received = port.receive(&mut buffer).expect("received");
        if let Event::Message { bytes } = received.event {
            say(&input, &buffer[..bytes]);
        }
    }
}

/// A cgroup with this limit of memory, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Group> {
        let name = format!("weir-test-{}", std::process::id());
        let places =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let made = places.iter().find_map(|(place, file)| {
            let group = Group(Path::new(place).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join(file), bytes.to_string()).ok()?;
            Some(group)
        });
        if made.is_none() {
            println!("SKIPPED in part: no memory cgroup can be made");
        }
        made
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        let pids = inside.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?));
        for pid in pids {
            let _ = kill_process(pid, Signal::KILL);
        }
        common::until("the cgroup can go", || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// A sealed file of this length of which only the first page is allocated.
fn sparse(bytes: u64, header: &[u8], more: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("sparse", flags).expect("a file");
    rustix::fs::ftruncate(&file, bytes).expect("sized");
    rustix::io::pwrite(&file, header, 0).expect("written");
    if more.is_empty() {
        // A mere count of blocks finds enough: these are behind the end.
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, keep, bytes, bytes).expect("allocated");
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | more;
    rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
    file
}

/// Reads the version of the layout from a pipe's memory.
fn version() -> u32 {
    let (writer, _reader) = weir::pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let mut word = [0; 4];
    rustix::io::pread(writer.memory_descriptor().expect("mine"), &mut word, 8).expect("read");
    u32::from_ne_bytes(word)
}

/// The ring of a port, almost all of it unallocated.
fn sparse_ring(more: SealFlags) -> OwnedFd {
    let words = [AREA_BYTES, AREA_BYTES, 0].map(u64::to_ne_bytes).concat();
    let kind = 3_u32;
    let header = [&b"weirpipe"[..], &version().to_ne_bytes(), &kind.to_ne_bytes(), &words].concat();
    sparse(PAGE + 2 * AREA_BYTES, &header, more)
}

/// A link of a channel and two arenas, almost all of it unallocated.
fn sparse_link(more: SealFlags) -> OwnedFd {
    // The version of the layout, the channels, and the bytes of an arena.
    let words = [3, 1, AREA_BYTES as u32].map(u32::to_ne_bytes).concat();
    sparse(4 * PAGE + 2 * AREA_BYTES, &[&b"weirlink"[..], &words].concat(), more)
}

/// Hands a memory over, and receives the answer.
fn hand_over(name: &Path, hello: &[u8], memory: &OwnedFd) -> String {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    connect(&socket, &SocketAddrUnix::new(name).expect("short")).expect("connected");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [memory.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    let text = [IoSlice::new(hello)];
    sendmsg(&socket, &text, &mut ancillary, SendFlags::NOSIGNAL).expect("sent");
    String::from_utf8(hear(&socket)).expect("text")
}

/// The most memory that a process has had.
fn most_memory_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it lives");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn memory_that_is_not_there_is_refused_and_costs_the_reader_nothing() {
    for (kind, hello, memory) in [
        ("port", &b"weir-port"[..], sparse_ring as fn(SealFlags) -> OwnedFd),
        ("mpx", &b"weir-mpx"[..], sparse_link),
    ] {
        let (_directory, name) = place();
        let (mut reader, socket) = start(&format!("{kind} {}", name.display()));
        // Half of what the first would cost.
        let group = Group::new(AREA_BYTES);
        if let Some(Group(place)) = &group {
            std::fs::write(place.join("cgroup.procs"), reader.id().to_string()).expect("moved");
        }
        say(&socket, b"go");
        assert_eq!(hear(&socket), b"up");
        let before = most_memory_bytes(reader.id());
        // Open to further seals, and not.
        for more in [SealFlags::empty(), SealFlags::SEAL].repeat(4) {
            let memory = memory(more);
            let said = hand_over(&name, hello, &memory);
            assert!(said.starts_with("weir-no "), "{kind}: {said}");
            let there = rustix::fs::fstat(&memory).expect("known").st_blocks as u64 * 512;
            assert!(there <= PAGE, "{there} bytes were made of it");
        }
        let cost = most_memory_bytes(reader.id()) - before;
        assert!(cost < 4 << 20, "{kind}: {cost} bytes");
        if kind == "port" {
            let mut honest =
                PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
            honest.send(b"hello").expect("sent");
            assert_eq!(hear(&socket), b"hello");
        }
        kill(&mut reader);
        drop(group);
    }
}

/// The rings of this process's writers. The thread that closes descriptors may close a copy of one
/// between the listing and the opening.
fn own_rings() -> Vec<OwnedFd> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ring = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:weir-pipe"))
    };
    let open = |path| match std::fs::File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        opened => Some(opened.expect("opened").into()),
    };
    paths.filter(is_ring).filter_map(open).collect()
}

#[test]
fn a_writer_cannot_take_its_memory_away_once_it_is_in() {
    let _alone = common::alone();
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let small = PortWriterOptions::new().capacity_bytes(65_536);
    let mut writer = PortWriter::connect(&name, &small).expect("a writer");
    writer.send(b"one").expect("sent");
    let mut buffer = [0; 8];
    let received = port.receive(&mut buffer).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 3 });
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let is_this = |ring: &OwnedFd| {
        rustix::fs::fstat(ring).is_ok_and(|file| file.st_size as u64 == PAGE + 2 * 65_536)
    };
    let ring = own_rings().into_iter().find(is_this).expect("it is there");
    assert_eq!(rustix::fs::fallocate(&ring, punch, PAGE, 65_536), Err(Errno::PERM));
    // No memory can be handed over twice, to be paid for twice.
    std::thread::scope(|scope| {
        let again = scope.spawn(|| hand_over(&name, b"weir-port", &ring));
        while !again.is_finished() {
            let _ = port.receive_timeout(&mut [0; 8], Duration::from_millis(5));
        }
        assert!(again.join().expect("no panic").starts_with("weir-no "));
    });
    writer.send(b"two").expect("sent");
    let received = port.receive(&mut buffer).expect("received");
    assert_eq!((received.event, &buffer[..3]), (Event::Message { bytes: 3 }, &b"two"[..]));
}
