//! What a pool does to its process: memory, descriptors, files, and the engine it gets. Each test
//! runs in a process of its own, which is this program again.

use common::until;
use seccompiler::SeccompAction;
use std::process::Command;
use std::time::Duration;
use weir::{Pool, PoolOptions};

mod common;

const PATIENCE: Duration = Duration::from_secs(30);
const ROLE: &str = "WEIR_TEST_ROLE";

/// Runs a role in a process of its own.
fn run(role: &str, variables: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", common::ROLE_TEST, "--nocapture", "--test-threads=1", "-q"])
        .env(ROLE, role)
        .env_remove("WEIR_SPILL_ENGINE")
        .envs(variables.iter().copied())
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {text}");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn in_a_role() {
    match common::role().as_deref() {
        None => {}
        Some("memory") => buffer_much(),
        Some("leave") => leave_nothing(),
        Some("filtered") => without_io_uring(),
        Some("threads") => {
            assert!(engine().starts_with("threads"), "{}", engine());
            use_it();
        }
        Some("uring") => match made() {
            Ok(pool) => assert!(pool.engine().starts_with("io_uring"), "{}", pool.engine()),
            Err(error) => {
                println!("SKIPPED: {error}");
                assert!(error.to_string().starts_with("cannot start the engine of a pool: "));
            }
        },
        Some("wrong") => {
            let error = made().expect_err("refused");
            assert_eq!(error.kind(), weir::ErrorKind::Invalid);
            assert!(error.to_string().contains("WEIR_SPILL_ENGINE"), "{error}");
            assert!(error.to_string().contains("'fast'"), "{error}");
        }
        Some("little-space") => under_every_limit(),
        Some(other) => panic!("no role {other}"),
    }
}

fn made() -> weir::Result<Pool> {
    Pool::new(&PoolOptions::new().memory_bytes(1 << 20))
}

fn engine() -> String {
    made().expect("pool").engine()
}

/// Moves bytes through the file and back.
fn use_it() {
    let pool = made().expect("pool");
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let data = common::patterned(5 << 20, 3);
    assert_eq!(writer.write_timeout(&data, PATIENCE).expect("put"), data.len());
    drop(writer);
    let (mut came, mut buffer) = (Vec::new(), vec![0; 1 << 18]);
    while let n @ 1.. = reader.read_timeout(&mut buffer, PATIENCE).expect("taken") {
        came.extend_from_slice(&buffer[..n]);
    }
    assert!(came == data && pool.account().read_back_bytes > 0);
}

/// A line of /proc/self/status, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
    let kib = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kib.expect("a number") << 10
}

fn buffer_much() {
    const MEMORY: u64 = 8 << 20;
    let before = status_bytes("VmRSS:");
    let pool = Pool::new(&PoolOptions::new().memory_bytes(MEMORY)).expect("pool");
    let (mut writer, mut reader) = pool.backlog().expect("backlog");
    let mut chunk = [9; 100_000];
    let mut put = 0;
    while put < 64 << 20 {
        put += writer.write_timeout(&chunk, PATIENCE).expect("put");
    }
    drop(writer);
    let mut taken = 0;
    while let n @ 1.. = reader.read_timeout(&mut chunk, PATIENCE).expect("taken") {
        taken += n;
    }
    assert_eq!(put, taken);
    let grown = status_bytes("VmHWM:").saturating_sub(before);
    println!("memory grew by {} KiB for a pool of {}", grown >> 10, MEMORY >> 10);
    assert!(grown < MEMORY + (16 << 20), "{grown} bytes");
    // All of its memory was in use, so the measured figure is its full cost.
    assert!(grown > MEMORY / 2, "{grown} bytes");
}

#[test]
fn memory_stays_within_the_budget() {
    run("memory", &[]);
}

/// Makes pools under a limit of address space that grows from almost nothing to enough.
fn under_every_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::As);
    let options = PoolOptions::new().memory_bytes(1 << 20);
    // Once without a limit, so that what a process allocates once is there.
    let before_it = held();
    let gone = || until("the pool is gone", || held() == before_it && pool_maps() == 0);
    drop(Pool::new(&options).expect("pool"));
    gone();
    let held = std::fs::read_to_string("/proc/self/statm").expect("readable");
    let pages: u64 = held.split(' ').next().expect("a word").parse().expect("a number");
    let now = pages * rustix::param::page_size() as u64;
    let (mut refused, mut made) = (0, 0);
    for more in (0..24 << 20).step_by(192 << 10) {
        let limit = Rlimit { current: Some(now + more), maximum: before.maximum };
        setrlimit(Resource::As, limit).expect("limited");
        let pool = Pool::new(&options);
        setrlimit(Resource::As, before).expect("not limited");
        match pool {
            Ok(pool) => {
                made += 1;
                drop(pool);
                gone();
            }
            Err(error) => {
                assert_eq!(error.kind(), weir::ErrorKind::Os, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10 && made > 10, "{refused} {made}");
}

#[test]
fn a_lack_of_memory_is_an_error_and_no_abort() {
    run("little-space", &[]);
}

fn held() -> (usize, usize) {
    let count = |place: &str| std::fs::read_dir(place).expect("readable").count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Mappings of pools' memory.
fn pool_maps() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    maps.lines().filter(|line| line.contains("weir-pool")).count()
}

fn leave_nothing() {
    let directory = tempfile::tempdir().expect("directory");
    let options = PoolOptions::new().memory_bytes(1 << 20).spill_directory(directory.path());
    let before = held();
    for round in 0..3 {
        let pool = Pool::new(&options).expect("pool");
        let (mut writer, reader) = pool.backlog().expect("backlog");
        writer.write_timeout(&vec![1; 3 << 20], PATIENCE).expect("put");
        assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
        assert!(held() > before && pool_maps() == 1);
        match round {
            // With transfers under way, or none.
            0 => drop((pool, writer, reader)),
            1 => drop((writer, reader, pool)),
            _ => {
                drop((writer, reader));
                until("all is given back", || pool.account().memory_bytes == 0);
                drop(pool);
            }
        }
        until("descriptors, threads and memory are given back", || {
            held() == before && pool_maps() == 0
        });
    }
    directory.close().expect("empty");
}

#[test]
fn nothing_is_left_of_a_pool() {
    run("leave", &[]);
    run("leave", &[("WEIR_SPILL_ENGINE", "threads")]);
}

fn without_io_uring() {
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    common::answer(&[libc::SYS_io_uring_setup], refuse);
    let said = engine();
    assert!(said.starts_with("threads, "), "{said}");
    assert!(said.contains("; no io_uring: Operation not permitted"), "{said}");
    use_it();
}

#[test]
fn without_io_uring_threads_do_it_and_the_pool_says_so() {
    run("filtered", &[]);
}

#[test]
fn the_environment_chooses_the_engine() {
    run("threads", &[("WEIR_SPILL_ENGINE", "threads")]);
    run("uring", &[("WEIR_SPILL_ENGINE", "uring")]);
    run("wrong", &[("WEIR_SPILL_ENGINE", "fast")]);
}
