//! Memory that is mostly not there, handed over to a reader or an owner that pays for its memory.

use crate::common::{hear, kill, place, say, start};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The claimed bytes of each of the two areas.
pub const AREA_BYTES: u64 = 32 << 20;
pub const PAGE: u64 = 4096;

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
        crate::common::until("the cgroup can go", || std::fs::remove_dir(&self.0).is_ok());
    }
}

/// A sealed file of this length of which only the first page is allocated.
pub fn sparse(bytes: u64, header: &[u8], more: SealFlags) -> OwnedFd {
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

/// Hands a memory over, and receives the answer.
pub fn hand_over(name: &Path, hello: &[u8], memory: &OwnedFd) -> String {
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

/// Hands such memory to a process that listens at a name, which is its role. It begins when it hears
/// "go", and says "up". Each memory must be refused, and cost nothing. Then calls `after`.
pub fn costs_nothing(
    hello: &[u8],
    memory: impl Fn(SealFlags) -> OwnedFd,
    after: impl FnOnce(&Path, &OwnedFd),
) {
    let (_directory, name) = place();
    let (mut reader, socket) = start(&name.display().to_string());
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
        assert!(said.starts_with("weir-no "), "{said}");
        let there = rustix::fs::fstat(&memory).expect("known").st_blocks as u64 * 512;
        assert!(there <= PAGE, "{there} bytes were made of it");
    }
    let cost = most_memory_bytes(reader.id()) - before;
    assert!(cost < 4 << 20, "{cost} bytes");
    after(&name, &socket);
    kill(&mut reader);
    drop(group);
}
