//! What a shared region promises: all processes see the same bytes, whoever dies, and the owner's end
//! is an error.

use crate::common::{self, Random, hear, kill, say, start, until};
use crate::slow::{in_time, send_slow};
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir::ErrorKind;
use weir_region::{RegionOptions, SharedRegion, SharedRegionMember};

const PAGE: u64 = 4096;
const PAGES: u64 = 512;
const BYTES: u64 = PAGES * PAGE;

fn options() -> RegionOptions {
    RegionOptions::new().memory_bytes(64 * PAGE)
}

fn admit(region: &SharedRegion, socket: &OwnedFd) {
    region.admit(socket.try_clone().expect("a copy")).expect("admitted");
}

fn word(at: u64, of: u64) -> u64 {
    at << 8 | of
}

/// Whether userfaultfd works here. Without it nobody can be a member.
fn is_here() -> bool {
    let made = weir_region::MappedRegion::new(1 << 20, &options()).expect("made");
    let mechanism = made.mechanism();
    if mechanism.starts_with("mmap") {
        println!("SKIPPED: {mechanism}");
    }
    !mechanism.starts_with("mmap")
}

/// A process that joins and does as it is told.
#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    if role == "owner" {
        let region = SharedRegion::new(BYTES, &options()).expect("made");
        region.admit(std::io::stdin().as_fd_copy()).expect("admitted");
        loop {
            std::thread::park();
        }
    }
    if role == "unmapped" {
        return touch_what_is_not_the_regions();
    }
    let region = SharedRegionMember::join(std::io::stdin().as_fd_copy()).expect("joined");
    if let Some(done) = role.strip_prefix("blocking ") {
        for faults in faults_here() {
            rustix::fs::fcntl_setfl(&faults, rustix::fs::OFlags::empty()).expect("blocking");
        }
        std::fs::write(done, "done").expect("written");
        loop {
            std::thread::park();
        }
    }
    // The socket was handed over; orders come by what the owner writes.
    let me: u64 = role.parse().expect("a number");
    let mut random = Random(me);
    let mut own = vec![0_u64; PAGES as usize];
    for round in 1.. {
        let page = random.below(PAGES);
        let at = page * PAGE + me * 64;
        let mut found = [0; 8];
        region.read_at(at, &mut found).expect("read");
        assert_eq!(u64::from_le_bytes(found), own[page as usize], "page {page} round {round}");
        own[page as usize] = word(round, me);
        region.write_at(at, &word(round, me).to_le_bytes()).expect("written");
        // How far it got, for the owner, in the last page.
        region.write_at(BYTES - PAGE + 2048 + me * 8, &round.to_le_bytes()).expect("written");
    }
}

trait FdCopy {
    fn as_fd_copy(&self) -> OwnedFd;
}

impl FdCopy for std::io::Stdin {
    fn as_fd_copy(&self) -> OwnedFd {
        use std::os::fd::AsFd;
        self.as_fd().try_clone_to_owned().expect("a copy")
    }
}

fn rounds(region: &SharedRegion, member: u64) -> u64 {
    let mut found = [0; 8];
    region.read_at(BYTES - PAGE + 2048 + member * 8, &mut found).expect("read");
    u64::from_le_bytes(found)
}

#[test]
fn processes_share_a_region_and_a_member_that_dies_harms_nobody() {
    if !is_here() {
        return;
    }
    let region = SharedRegion::new(BYTES, &options()).expect("made");
    let mut members: Vec<_> = (1..=3).map(|me: u64| start(&me.to_string())).collect();
    members.iter().for_each(|(_, socket)| admit(&region, socket));
    assert_eq!(region.members(), 3);
    // Their own words are checked by the members, who die if one is wrong.
    let far = |region: &SharedRegion, me: u64, most: u64| {
        let begun = Instant::now();
        while rounds(region, me) < most {
            assert!(begun.elapsed() < Duration::from_secs(60), "member {me}");
        }
    };
    (1..=3).for_each(|me| far(&region, me, 1000));
    // Killed wherever it is; the others continue.
    kill(&mut members[1].0);
    let _ = members.remove(1);
    let now = (rounds(&region, 1), rounds(&region, 3));
    far(&region, 1, now.0 + 1000);
    far(&region, 3, now.1 + 1000);
    until("its death is noticed", || region.members() == 2);
    // What it wrote is there: a word of its own, or zero, in each page.
    let mut written = 0;
    for page in 0..PAGES {
        let mut found = [0; 8];
        region.read_at(page * PAGE + 2 * 64, &mut found).expect("read");
        let found = u64::from_le_bytes(found);
        assert!(found == 0 || found & 0xff == 2, "{found:x}");
        written += u64::from(found != 0);
    }
    assert!(written > PAGES / 2, "{written}");
    let account = region.account();
    assert!(account.most_memory_bytes <= 64 * PAGE && account.written_bytes > 0, "{account:?}");
    for (mut child, _) in members {
        assert!(child.try_wait().expect("asked").is_none(), "a member found a wrong word");
        kill(&mut child);
    }
}

#[test]
fn the_owners_death_is_an_error() {
    if !is_here() {
        return;
    }
    let (mut owner, socket) = start("owner");
    let member = SharedRegionMember::join(socket).expect("joined");
    for page in 0..PAGES {
        member.write_at(page * PAGE, &page.to_le_bytes()).expect("written");
    }
    let (told, died) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (member, told) = (&member, told.clone());
            scope.spawn(move || {
                let mut random = Random(seed + 1);
                loop {
                    let page = random.below(PAGES);
                    let mut found = [0; 8];
                    match member.read_at(page * PAGE, &mut found) {
                        // Never bytes that nobody wrote.
                        Ok(()) => assert_eq!(u64::from_le_bytes(found), page),
                        Err(error) => return told.send(error).expect("heard"),
                    }
                }
            });
        }
        kill(&mut owner);
        for _ in 0..2 {
            let error = died.recv_timeout(Duration::from_secs(20)).expect("no hang");
            assert_eq!(error.kind(), ErrorKind::Closed);
            assert_eq!(error.to_string(), "cannot read from the region: its owner has ended");
        }
    });
    assert!(member.is_lost());
    let refused = member.write_at(0, b"abc").expect_err("lost");
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

#[test]
fn what_members_write_reaches_the_file() {
    if !is_here() {
        return;
    }
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, &vec![0; BYTES as usize]).expect("written");
    let region = SharedRegion::over(file.try_clone().expect("a copy"), &options()).expect("made");
    let (mut child, socket) = start("1");
    admit(&region, &socket);
    let begun = Instant::now();
    while rounds(&region, 1) < 1000 {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    kill(&mut child);
    until("its death is noticed", || region.members() == 0);
    let mut copy = vec![0; BYTES as usize];
    region.read_at(0, &mut copy).expect("read");
    drop(region);
    use std::os::unix::fs::FileExt;
    let mut found = vec![0; BYTES as usize];
    file.read_exact_at(&mut found, 0).expect("read");
    assert!(found == copy);
    assert!((0..PAGES).filter(|page| found[(page * PAGE + 64) as usize] == 1).count() > 100);
}

#[test]
fn strangers_are_refused() {
    let region = SharedRegion::new(BYTES, &options()).expect("made");
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    say(&theirs, b"weir-region 1 4096");
    let refused = region.admit(ours).expect_err("no descriptor");
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    drop(theirs);
    assert!(region.admit(ours).is_err());
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    say(&theirs, b"hello");
    let refused = SharedRegionMember::join(ours).expect_err("no owner");
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert_eq!(region.members(), 0);
}

/// How often the handler was called.
static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    // Relaxed: a count.
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Sends a thread a hundred signals, each once it has handled the one before. Whatever it waits for,
/// most of them come while it waits.
fn disturb<T>(thread: &JoinHandle<T>) {
    for _ in 0..100 {
        let before = HANDLED.load(Ordering::Relaxed);
        // SAFETY: the thread is not joined yet.
        assert_eq!(unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) }, 0);
        until("it is handled", || {
            assert!(!thread.is_finished(), "a signal ended the wait");
            HANDLED.load(Ordering::Relaxed) != before
        });
    }
}

/// A signal ends a poll, whatever its handler's flags are. Each of the two was an error then.
#[test]
fn signals_end_no_wait_for_the_other_side() {
    if !is_here() {
        return;
    }
    // SAFETY: the handler does what a handler may do.
    unsafe { libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t) };
    let region = std::sync::Arc::new(SharedRegion::new(BYTES, &options()).expect("made"));
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let owner = std::thread::spawn({
        let region = region.clone();
        move || region.admit(ours)
    });
    disturb(&owner);
    let first = SharedRegionMember::join(theirs).expect("joined");
    owner.join().expect("no panic").expect("admitted");
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let member = std::thread::spawn(|| SharedRegionMember::join(theirs));
    disturb(&member);
    region.admit(ours).expect("admitted");
    let second = member.join().expect("no panic").expect("joined");
    first.write_at(0, b"abc").expect("written");
    let mut found = [0; 3];
    second.read_at(0, &mut found).expect("read");
    assert_eq!(&found, b"abc");
}

/// A member can make its faults blocking again, since the owner reads from the same description. The
/// owner's read then lasted until that member faulted: all others hung, and so did the owner's end.
#[test]
fn a_member_that_makes_its_faults_blocking_holds_nobody_up() {
    if !is_here() {
        return;
    }
    let region = SharedRegion::new(BYTES, &options()).expect("made");
    let directory = tempfile::tempdir().expect("a directory");
    let done = directory.path().join("done");
    let (mut hostile, socket) = start(&format!("blocking {}", done.display()));
    admit(&region, &socket);
    until("its faults are blocking", || done.exists());
    let (says, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || says.send(reads_all_and_ends(region)));
    heard.recv_timeout(Duration::from_secs(20)).expect("neither the other nor the end hangs");
    kill(&mut hostile);
}

/// Joins with memory that is not the region's, and touches it in many threads.
fn touch_what_is_not_the_regions() {
    let socket = std::io::stdin().as_fd_copy();
    hear(&socket);
    let bytes = BYTES as usize;
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    let file = rustix::fs::memfd_create("other", rustix::fs::MemfdFlags::CLOEXEC).expect("made");
    rustix::fs::ftruncate(&file, BYTES).expect("length");
    // SAFETY: a new mapping, which stays until the process ends.
    let map = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, &file, 0) };
    let map = map.expect("mapped");
    let faults = weir_sys::userfault::shared::MemberFaults::open().expect("faults");
    // SAFETY: it is a mapping of a memory file, which stays.
    unsafe { faults.register(map.cast(), bytes) }.expect("registered");
    let at = map.expose_provenance();
    let text = format!("weir-region 1 {at}");
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [faults.here().expect("here")];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let text = [std::io::IoSlice::new(text.as_bytes())];
    sendmsg(&socket, &text, &mut control, SendFlags::empty()).expect("sent");
    for number in 0..100 {
        let page = at + number * PAGE as usize;
        std::thread::spawn(move || {
            // SAFETY: inside of the mapping.
            unsafe { std::ptr::with_exposed_provenance::<u8>(page).read_volatile() }
        });
    }
    loop {
        std::thread::park();
    }
}

/// The owner tried for a second to show what such a member touched, for each of its threads, as if the
/// file were at fault. All others waited meanwhile.
#[test]
fn a_member_that_touches_what_is_not_the_regions_holds_nobody_up() {
    if !is_here() {
        return;
    }
    let region = SharedRegion::new(BYTES, &options()).expect("made");
    let (mut hostile, socket) = start("unmapped");
    admit(&region, &socket);
    until("it is shut out", || region.members() == 0);
    let (says, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || says.send(reads_all_and_ends(region)));
    heard.recv_timeout(Duration::from_secs(20)).expect("neither the other nor the end hangs");
    kill(&mut hostile);
}

/// Has another member read all of a region, and ends it.
fn reads_all_and_ends(region: SharedRegion) -> u64 {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let other = std::thread::scope(|scope| {
        let joins = scope.spawn(|| SharedRegionMember::join(theirs));
        region.admit(ours).expect("admitted");
        joins.join().expect("no panic").expect("joined")
    });
    let mut word = [0; 8];
    (0..PAGES).for_each(|page| other.read_at(page * PAGE, &mut word).expect("read"));
    PAGES
}

/// Copies of the descriptors of faults that this process has.
fn faults_here() -> Vec<OwnedFd> {
    let open = std::fs::read_dir("/proc/self/fd").expect("listed");
    let open: Vec<_> = open.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let faults = open.into_iter().filter(|path| {
        std::fs::read_link(path).is_ok_and(|link| link.as_os_str() == "anon_inode:[userfaultfd]")
    });
    let number = |path: std::path::PathBuf| path.file_name()?.to_str()?.parse::<i32>().ok();
    let pid = rustix::process::getpid();
    let me = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("me");
    let copy = |number| {
        rustix::process::pidfd_getfd(&me, number, rustix::process::PidfdGetfdFlags::empty())
    };
    faults.filter_map(|path| copy(number(path)?).ok()).collect()
}

/// Descriptors that take long to close come with a message, and behind it.
#[test]
fn what_a_stranger_or_a_member_sends_holds_up_no_region() {
    let region = SharedRegion::new(BYTES, &options()).expect("made");
    for (text, count) in [("hello", 2), ("hello", 3), ("weir-region 1 4096", 1), ("hello", 0)] {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let mut others = send_slow(&theirs, text.as_bytes(), count);
        others.extend(send_slow(&theirs, b"and behind it", 1));
        in_time("a refusal", || region.admit(ours)).expect_err("it is not a member");
    }
    for (text, count) in [("hello", 2), ("hello", 3), ("weir-region 1 4096", 1), ("hello", 0)] {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let mut others = send_slow(&theirs, text.as_bytes(), count);
        others.extend(send_slow(&theirs, b"and behind it", 1));
        in_time("a refusal", || SharedRegionMember::join(ours)).expect_err("it owns no region");
    }
    let join = || {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let copy = theirs.try_clone().expect("a copy");
        let joining = std::thread::spawn(move || SharedRegionMember::join(copy));
        let admitted = region.admit(ours);
        let joined = joining.join().expect("no panic");
        admitted.and(joined).map(|member| (member, theirs))
    };
    let Ok((hostile, socket)) = join() else {
        println!("SKIPPED: no process can be a member here");
        return;
    };
    let _others = send_slow(&socket, b"more", 1);
    drop((hostile, socket));
    let (honest, _socket) = join().expect("joined");
    in_time("a fault of another", || honest.read_at(0, &mut [0; 8])).expect("read");
}

/// A dirty page beyond the new end made the file long again, and members read zeros.
#[test]
fn what_was_cut_off_of_a_shared_regions_file_is_no_zeros() {
    if !is_here() {
        return;
    }
    let file = tempfile::tempfile().expect("a file");
    file.set_len(BYTES).expect("set");
    let other = file.try_clone().expect("cloned");
    let region = SharedRegion::over(file, &options()).expect("made");
    let put = |page: u64| region.write_at(page * PAGE, &(page + 1).to_le_bytes());
    (0..PAGES).for_each(|page| put(page).expect("written"));
    region.flush().expect("flushed");
    (PAGES - 4..PAGES).for_each(|page| put(page).expect("written"));
    other.set_len(BYTES / 2).expect("cut off");
    let mut failed = 0;
    for page in (0..PAGES).rev().chain(0..PAGES) {
        let mut found = [0; 8];
        match region.read_at(page * PAGE, &mut found) {
            Ok(()) => assert_eq!(u64::from_le_bytes(found), page + 1, "page {page}"),
            Err(error) => failed += u64::from(error.kind() == ErrorKind::Os),
        }
    }
    assert!(failed > PAGES / 2, "{failed} reads failed");
    assert_eq!(other.metadata().expect("there").len(), BYTES / 2);
}
