//! What regions in a pool, and shared ones, promise as a region of its own does: many threads, forks,
//! deaths, files that are cut off, and never more memory than the budget.

use crate::common::{self, Random, hear, kill, say, start, stop, until};
use crate::regions::{mapped_bytes, pool_bytes};
use rustix::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir::{ErrorKind, Pool, PoolOptions};
use weir_region::{
    MappedRegion, Region, RegionAdvice, RegionOptions, SharedRegion, SharedRegionMember,
};

const PAGE: u64 = 4096;
const PAGES: u64 = 512;
const BYTES: u64 = PAGES * PAGE;
const LEAST: u64 = 8 * PAGE;

fn pool(bytes: u64) -> Pool {
    Pool::new(&PoolOptions::new().memory_bytes(bytes).frame_bytes(16 << 10)).expect("a pool")
}

fn of(pool: &Pool) -> RegionOptions {
    RegionOptions::new().pool(pool)
}

fn shared(options: &RegionOptions) -> SharedRegion {
    SharedRegion::new(BYTES, options).expect("made")
}

/// Whether userfaultfd works here. Without it there are no members and no budget of a mapped region.
fn is_here() -> bool {
    let made = MappedRegion::new(1 << 20, &RegionOptions::new().memory_bytes(LEAST)).expect("made");
    let mechanism = made.mechanism();
    if mechanism.starts_with("mmap") {
        println!("SKIPPED: {mechanism}");
    }
    !mechanism.starts_with("mmap")
}

/// A member of a region in the same process.
fn member(region: &SharedRegion) -> SharedRegionMember {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
    std::thread::scope(|scope| {
        let joins = scope.spawn(|| SharedRegionMember::join(theirs));
        region.admit(ours).expect("admitted");
        joins.join().expect("no panic").expect("joined")
    })
}

/// Writes words of its own into random pages, each of which it shares with the others, and checks
/// what was there.
fn own_words(
    me: u64,
    rounds: u64,
    read: impl Fn(u64, &mut [u8]) -> weir::Result<()>,
    write: impl Fn(u64, &[u8]) -> weir::Result<()>,
) {
    let mut random = Random(me + 1);
    let mut own = vec![0_u64; PAGES as usize];
    for round in 1..=rounds {
        // In runs, so that clusters come, and alone.
        let page = (random.below(PAGES) + round % 4) % PAGES;
        let (at, mut found) = (page * PAGE + me * 64, [0; 8]);
        read(at, &mut found).expect("read");
        assert_eq!(u64::from_le_bytes(found), own[page as usize], "{me}: page {page}, {round}");
        own[page as usize] = round << 8 | me;
        write(at, &own[page as usize].to_le_bytes()).expect("written");
    }
    for (page, word) in own.iter().enumerate() {
        let mut found = [0; 8];
        read(page as u64 * PAGE + me * 64, &mut found).expect("read");
        assert_eq!(u64::from_le_bytes(found), *word, "{me}: page {page}");
    }
}

#[test]
fn threads_share_a_region_of_a_pool() {
    for threads in [2, 4, 8] {
        let pool = pool(64 * PAGE);
        let regions = [0, 1].map(|_| Region::new(BYTES, &of(&pool)).expect("made"));
        let mut mapped = MappedRegion::new(BYTES as usize, &of(&pool)).expect("made");
        std::thread::scope(|scope| {
            for me in 0..threads {
                let region = &regions[me as usize % 2];
                let read = |at, to: &mut [u8]| region.read_at(at, to);
                scope.spawn(move || own_words(me, 800, read, |at, from| region.write_at(at, from)));
            }
            // Bounds inside pages, so that two threads touch one page.
            let parts = mapped.chunks_mut((BYTES / threads) as usize + 100);
            for (me, part) in parts.enumerate() {
                scope.spawn(move || {
                    for round in 0..3_u8 {
                        for at in (0..part.len()).step_by(1000) {
                            assert_eq!(part[at], if round == 0 { 0 } else { round + me as u8 });
                            part[at] = round + 1 + me as u8;
                        }
                    }
                });
            }
        });
        let account = pool.account();
        assert!(account.most_memory_bytes <= 64 * PAGE, "{account:?}");
    }
}

#[test]
fn threads_share_a_shared_region_and_its_members() {
    if !is_here() {
        return;
    }
    for threads in [2, 4, 8] {
        for is_pooled in [false, true] {
            let pool = pool(64 * PAGE);
            let options = if is_pooled { of(&pool) } else { RegionOptions::new() };
            let region = shared(&options.memory_bytes(32 * PAGE));
            let members = [0, 1].map(|_| member(&region));
            std::thread::scope(|scope| {
                let region = &region;
                for me in 0..threads {
                    let member = &members[me as usize % 2];
                    // One of four is the owner.
                    let own = me % 4 == 3;
                    let read = move |at, to: &mut [u8]| {
                        if own { region.read_at(at, to) } else { member.read_at(at, to) }
                    };
                    let write = move |at, from: &[u8]| {
                        if own { region.write_at(at, from) } else { member.write_at(at, from) }
                    };
                    scope.spawn(move || own_words(me, 400, read, write));
                }
            });
            let account = region.account();
            assert!(account.most_memory_bytes <= 32 * PAGE, "{account:?}");
            assert!(account.read_bytes > 0 && account.written_bytes > 0, "{account:?}");
        }
    }
}

#[test]
fn a_forked_child_has_no_part_in_any_of_them() {
    let pool = pool(64 * PAGE);
    let region = Region::new(BYTES, &of(&pool)).expect("made");
    let mut mapped = MappedRegion::new(BYTES as usize, &of(&pool)).expect("made");
    let owned = shared(&of(&pool));
    let joined = is_here().then(|| member(&owned));
    region.write_at(5, b"parent").expect("written");
    owned.write_at(5, b"parent").expect("written");
    mapped[5] = 7;
    let before = pool.account().lent_bytes;
    let body = || {
        let (mut refused, one) = (Vec::new(), &mut [0]);
        refused.push(region.read_at(0, one).err());
        refused.push(region.write_at(0, one).err());
        refused.push(region.flush().err());
        refused.push(region.working_set().err());
        refused.push(mapped.advise(RegionAdvice::Random).err());
        refused.push(mapped.flush().err());
        refused.push(owned.read_at(0, one).err());
        refused.push(owned.write_at(0, one).err());
        refused.push(owned.flush().err());
        if let Some(member) = &joined {
            refused.push(member.read_at(0, one).err());
            refused.push(member.write_at(0, one).err());
        }
        let all = refused
            .iter()
            .all(|error| error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Forked));
        u8::from(!all || owned.account() != Default::default())
    };
    // SAFETY: the child makes no threads, and ends.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    assert!(child.expect("forked").succeeded().expect("reaped"), "all of it is the parent's");
    assert_eq!(pool.account().lent_bytes, before);
    assert_eq!(region.read_array(5).expect("read"), *b"parent");
    let mut found = [0; 6];
    owned.read_at(5, &mut found).expect("read");
    assert_eq!((&found, mapped[5]), (b"parent", 7));
    let read = |at, to: &mut [u8]| region.read_at(at, to);
    own_words(3, 800, read, |at, from| region.write_at(at, from));
    if let Some(member) = &joined {
        let read = |at, to: &mut [u8]| member.read_at(at, to);
        own_words(4, 400, read, |at, from| member.write_at(at, from));
    }
    mapped.iter_mut().step_by(100).for_each(|byte| *byte = 1);
    assert!(pool.account().most_memory_bytes <= 64 * PAGE);
}

/// Starts a role in which memory is spilled to a directory.
fn start_in(role: &str, directory: &std::path::Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", &common::role_test(), "--nocapture", "--test-threads=1", "-q"]);
    command.env("WEIR_TEST_ROLE", role).env("TMPDIR", directory);
    command.stdout(Stdio::null()).spawn().expect("started")
}

#[test]
fn nothing_is_left_of_regions_that_are_killed() {
    let place = tempfile::tempdir().expect("a directory");
    let mut child = start_in("fill", place.path());
    let process = child.id();
    let spilled = || {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        let ours = |path: &std::path::PathBuf| {
            std::fs::read_link(path).is_ok_and(|link| link.starts_with(place.path()))
        };
        let lengths = paths.filter(ours).filter_map(|path| std::fs::metadata(path).ok());
        lengths.filter(|about| std::os::unix::fs::MetadataExt::blocks(about) > 0).count()
    };
    // That of the pool, of the region, and of the shared one.
    until("all have written to their files", || spilled() >= 3);
    assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0, "they have no names");
    kill(&mut child);
    assert_eq!(std::fs::read_dir(place.path()).expect("listed").count(), 0);
}

#[test]
fn a_members_touch_of_a_page_that_cannot_be_read_ends_in_sigbus_and_harms_no_other() {
    if !is_here() {
        return;
    }
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, &vec![9; BYTES as usize]).expect("written");
    let pool = pool(64 * PAGE);
    let region = SharedRegion::over(file.try_clone().expect("a copy"), &of(&pool)).expect("made");
    let mut found = [0; 1];
    region.read_at(3, &mut found).expect("read");
    let stays = member(&region);
    file.set_len(0).expect("cut off");
    let (mut child, socket) = start("reads");
    region.admit(socket).expect("admitted");
    let status = child.wait().expect("reaped");
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
    until("its death is noticed", || region.members() == 1);
    stays.read_at(3, &mut found).expect("it is in memory");
    assert_eq!(found, [9]);
    let error = region.read_at(BYTES / 2, &mut found).expect_err("it is not there");
    assert!(error.to_string().starts_with("cannot read a page of the region's file: "), "{error}");
}

const WATCHED: u64 = 1 << 20;

/// Two shared regions of a pool, three processes that write both, and a stream.
#[test]
fn shared_regions_in_a_pool_stay_within_its_budget_as_the_kernel_counts_it() {
    if !is_here() {
        return;
    }
    let (mut owner, socket) = start("owner");
    let process = rustix::process::Pid::from_child(&owner);
    let text = String::from_utf8(hear(&socket)).expect("numbers");
    let members: Vec<u32> = text.split(' ').map(|pid| pid.parse().expect("a pid")).collect();
    assert_eq!(members.len(), 3);
    let (mut most, mut most_mapped) = (0, 0);
    for _ in 0..100 {
        // The owner alone gives memory to regions, and takes it away.
        stop(process);
        let bytes = pool_bytes(owner.id());
        most = most.max(bytes);
        for member in &members {
            let mapped = mapped_bytes(*member, "/memfd:weir-region");
            most_mapped = most_mapped.max(mapped);
            assert!(mapped <= bytes, "a member has {mapped} bytes of {bytes}");
        }
        rustix::process::kill_process(process, rustix::process::Signal::CONT).expect("continued");
        // sleep: it continues for a while before the next look.
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(owner.try_wait().expect("asked").is_none(), "somebody found a wrong word");
    kill(&mut owner);
    assert!((WATCHED / 2..=WATCHED).contains(&most), "{most}");
    assert!(most_mapped > 0, "members map what the owner shows them");
}

/// Owns two shared regions of a pool, and starts their members.
fn own() {
    let pool = pool(WATCHED);
    let regions = [0, 1].map(|_| shared(&of(&pool)));
    let members = ["1", "2", "3"].map(|role| start(role));
    let pids = members.each_ref().map(|(child, _)| child.id().to_string()).join(" ");
    for (which, (_, socket)) in members.iter().enumerate() {
        regions[which % 2].admit(socket.try_clone().expect("a copy")).expect("admitted");
    }
    say(std::io::stdin(), pids.as_bytes());
    loop {
        let (mut writer, mut reader) = pool.backlog().expect("a stream");
        writer.write(&vec![1; WATCHED as usize]).expect("put");
        drop(writer);
        std::io::copy(&mut reader, &mut std::io::sink()).expect("taken");
        // A member that finds a wrong word dies.
        let members = regions.iter().map(SharedRegion::members).sum::<usize>();
        assert_eq!(members, 3);
    }
}

fn stdin() -> OwnedFd {
    use std::os::fd::AsFd;
    std::io::stdin().as_fd().try_clone_to_owned().expect("a copy")
}

/// The other processes of the tests.
#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    match role.as_str() {
        "owner" => own(),
        "fill" => {
            let pool = pool(64 * PAGE);
            let region = Region::new(BYTES, &of(&pool)).expect("made");
            let owned = shared(&of(&pool));
            let (mut writer, _reader) = pool.backlog().expect("a stream");
            loop {
                for page in 0..PAGES {
                    region.write_at(page * PAGE, &[1]).expect("written");
                    owned.write_at(page * PAGE, &[1]).expect("written");
                    let _ = writer.try_write(&[1; PAGE as usize]);
                }
            }
        }
        "reads" => {
            let region = SharedRegionMember::join(stdin()).expect("joined");
            let mut found = [0; 1];
            let read = region.read_at(BYTES / 2, &mut found);
            panic!("it read {found:?}, {read:?}");
        }
        me => {
            let region = SharedRegionMember::join(stdin()).expect("joined");
            let me = me.parse().expect("a number");
            let read = |at, to: &mut [u8]| region.read_at(at, to);
            own_words(me, u64::MAX, read, |at, from| region.write_at(at, from));
        }
    }
}
