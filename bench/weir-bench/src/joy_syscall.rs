//! `joy-syscall`: the phases of a system call, which Joy found in 1980 by counting instructions.
//!
//! Each phase is the difference of two calls, one of which does that phase in addition. All calls
//! run in one process, round after round, so the differences are within rounds.

use crate::limits::futex_wake_nobody;
use crate::sys::floor;
use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::sys::uring::Nops;
use crate::tools::futex::{sleep, wake};
use crate::tools::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use weir_measure::sys::fork;

pub fn suite() -> Suite {
    Suite {
        name: "joy-syscall",
        about: "What a system call costs, divided into phases: entry, finding the file, copying the bytes.",
        source: "W. Joy, March 1980, on the system call of the VAX-11/780",
        groups: vec![phases(), filters(), rings()],
    }
}

fn call(name: &str) -> Params {
    Params { mechanism: Some(name.into()), ..operation("call") }
}

fn plain(name: &'static str, operation: fn()) -> Case {
    case(name, call(name), Measure::TIME, move |_| repeat(operation))
}

/// Removes a case from the default set.
fn further(case: Case) -> Case {
    Case { standard: false, ..case }
}

/// Reads `bytes` bytes from a descriptor that gives zeros, or that is not open.
fn reading(name: &'static str, bytes: usize, open: bool, standard: bool) -> Case {
    let params = Params { chunk_bytes: Some(bytes as u64), ..call("read") };
    let read = case(name, params, Measure::TIME, move |_| {
        let file = open.then(|| File::open("/dev/zero")).transpose()?;
        let mut buffer = vec![1; bytes];
        let descriptor = file.as_ref().map(AsFd::as_fd);
        if open && floor::read(descriptor, &mut buffer) != bytes as i64 {
            return Err(CaseError::failed("/dev/zero returned less than requested"));
        }
        repeat(move || {
            floor::read(file.as_ref().map(AsFd::as_fd), black_box(&mut buffer));
        })
    });
    Case { standard, ..read }
}

/// Reads the first `bytes` bytes of a file in memory, which the kernel copies. What /dev/zero gives
/// is not copied: the buffer is cleared.
fn copying(name: &'static str, bytes: usize) -> Case {
    const WHOLE: [u8; 4096] = [0xa5; 4096];
    let access = Some("cached".into());
    let params = Params { chunk_bytes: Some(bytes as u64), access, ..call("read") };
    case(name, params, Measure::TIME, move |_| {
        let file = File::from(memfd_create("copied", MemfdFlags::CLOEXEC)?);
        file.write_all_at(&WHOLE, 0)?;
        let mut buffer = vec![0; bytes];
        if floor::read_first(file.as_fd(), &mut buffer) != bytes as i64 || buffer != WHOLE[..bytes]
        {
            return Err(CaseError::failed("a file in memory returned other bytes than it has"));
        }
        repeat(move || {
            floor::read_first(file.as_fd(), black_box(&mut buffer));
        })
    })
}

#[inline(never)]
fn nothing() {
    black_box(());
}

/// Wakes nobody while a thousand threads sleep on words of their own. Joy (1980) hashed the sleepers, so
/// that a wake-up need not look at all of them; the kernel's futexes are hashed too.
fn wake_among_sleepers() -> MadeWork {
    let sleepers = Sleepers::start(1000)?;
    let word = AtomicU32::new(0);
    try_repeat(move || {
        let _until_the_end = &sleepers;
        wake(&word, 1)
    })
}

/// Threads that sleep, each on a word of its own, until this is dropped.
struct Sleepers {
    words: Arc<Vec<AtomicU32>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Sleepers {
    fn start(count: usize) -> Result<Sleepers, CaseError> {
        const STACK_BYTES: usize = 64 << 10;
        let words: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
        let mut sleepers = Sleepers { words: Arc::new(words), threads: Vec::new() };
        for at in 0..count {
            let words = Arc::clone(&sleepers.words);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                // Relaxed: nothing but the word itself is told by it.
                while words[at].load(Ordering::Relaxed) == 0 && sleep(&words[at], 0, None).is_ok() {
                }
            })?;
            sleepers.threads.push(thread);
        }
        Ok(sleepers)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for word in self.words.iter() {
            // Relaxed: as above.
            word.store(1, Ordering::Relaxed);
            let _ = wake(word, 1);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn phases() -> Group {
    let calls = Some(Perspective { of: Activity::Calls, per_operation: 1.0 });
    let floor_call = Case { perspective: calls, ..plain("no such call", floor::no_such_call) };
    let cases = vec![
        floor_call,
        plain("function call", nothing),
        plain("clock by vDSO", || {
            black_box(floor::clock_in_user_mode());
        }),
        plain("getppid", || {
            black_box(floor::parent_id());
        }),
        further(plain("getuid", || {
            black_box(floor::user_id());
        })),
        further(plain("clock by call", || {
            black_box(floor::clock());
        })),
        further(plain("yield", std::thread::yield_now)),
        further(case("futex wake, nobody waits", call("futex"), Measure::TIME, |_| {
            futex_wake_nobody()
        })),
        further(case("futex wake, 1000 wait for others", call("futex"), Measure::TIME, |_| {
            wake_among_sleepers()
        })),
        reading("read of a closed descriptor", 1, false, true),
        reading("read of 0 bytes", 0, true, true),
        reading("read of 1 byte", 1, true, true),
        reading("read of 512 bytes", 512, true, false),
        reading("read of 4096 bytes", 4096, true, false),
        copying("read of 1 byte of a file", 1),
        copying("read of 4096 bytes of a file", 4096),
    ];
    Group { derived: differences(), ..group("phases", Sides::One, cases) }
}

fn differences() -> Vec<Derived> {
    let phase = |name: &str| Params { mechanism: Some(name.into()), ..operation("phase") };
    let of = |name: &str, plus: &str, minus: &str| difference(name, phase(name), plus, minus);
    let per_byte = Derived {
        divide_by: 4.095,
        ..difference(
            "phase: copy of 1000 bytes",
            phase("copy of 1000 bytes"),
            "read of 4096 bytes of a file",
            "read of 1 byte of a file",
        )
    };
    vec![
        of("phase: entry and exit", "no such call", "function call"),
        of("phase: the call proper (getppid)", "getppid", "no such call"),
        of("phase: descriptor look-up", "read of a closed descriptor", "no such call"),
        of("phase: VFS", "read of 0 bytes", "read of a closed descriptor"),
        of("phase: copy set-up", "read of 1 byte", "read of 0 bytes"),
        per_byte,
    ]
}

/// What is called behind a filter: a call that there is. Only of those the kernel finds out beforehand
/// which ones a filter allows.
fn filtered_call() -> i64 {
    floor::parent_id()
}

/// A seccomp filter cannot be removed, so each is installed in a child that makes the calls.
fn filters() -> Group {
    let filter = |name: &'static str, installed: Option<(usize, bool)>| {
        further(case(name, call("seccomp"), Measure::TIME, move |_| filtered(installed)))
    };
    let cases = vec![
        filter("getppid in a child", None),
        filter("getppid behind a filter known to allow it", Some((4, false))),
        filter("getppid behind a filter that must run", Some((4, true))),
        filter("getppid behind a filter of 50 that must run", Some((50, true))),
    ];
    let of = |name: &str, plus: &str| Derived {
        standard: false,
        ..difference(name, call("seccomp"), plus, "getppid in a child")
    };
    Group {
        derived: vec![
            of("phase: filter known to allow", "getppid behind a filter known to allow it"),
            of("phase: filter that runs", "getppid behind a filter that must run"),
            of("phase: filter of 50 that runs", "getppid behind a filter of 50 that must run"),
        ],
        twin: false,
        ..group("filters", Sides::One, cases)
    }
}

fn filtered(installed: Option<(usize, bool)>) -> MadeWork {
    use std::sync::atomic::Ordering;
    const COUNT: usize = 0;
    const RESULT: usize = 2;
    let shared = std::rc::Rc::new(SharedPages::new(4 * LINE_BYTES)?);
    work(move |count| {
        let theirs = shared.clone();
        shared.word(COUNT).store(count, Ordering::Relaxed);
        let mut child = fork::child(move || {
            let filter = |(instructions, argument)| {
                crate::sys::filter::allow_everything(instructions, argument)
            };
            if installed.map(filter).transpose().is_err() {
                return 2;
            }
            // The kernel notices during the first calls that they are allowed.
            let call = |_| {
                black_box(filtered_call());
            };
            (0..100).for_each(call);
            let begun = Instant::now();
            (0..count).for_each(call);
            let elapsed = elapsed_ns(begun) as u64;
            theirs.word(RESULT).store(elapsed, Ordering::Relaxed);
            0
        })?;
        if !child.succeeded()? {
            return Err(CaseError::left_out("this kernel installs no seccomp filters here"));
        }
        // This process waited for the child's end, which comes after its store.
        let elapsed = shared.word(RESULT).load(Ordering::Relaxed);
        Ok(Batch::time(elapsed as f64, count))
    })
}

/// Measures the cost of a request that is submitted with others in one call.
fn rings() -> Group {
    let batch = |per_call: u32| {
        let params = Params { per_call: Some(u64::from(per_call)), ..call("io-uring") };
        let name = format!("io_uring no-op, {per_call} a call");
        let nop = case(name, params, Measure::TIME, move |_| {
            let cannot = |error| CaseError::left_out(format!("no io_uring here: {error}"));
            let mut nops = Nops::new(per_call).map_err(cannot)?;
            nops.submit(per_call).map_err(cannot)?;
            work(move |count| {
                let elapsed = timed(count, || Ok(nops.submit(per_call)?))?;
                Ok(Batch::time(elapsed, count * u64::from(per_call)))
            })
        });
        further(nop)
    };
    let direct = further(plain("no such call, beside", floor::no_such_call));
    let mut cases = vec![direct];
    cases.extend([1, 8, 32].map(batch));
    Group {
        baseline: Some("no such call, beside".into()),
        twin: false,
        ..group("rings", Sides::One, cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that no call has is not in the kernel's table, and a filter that was known to allow it
    /// ran all the same.
    #[test]
    fn behind_filters_is_a_call_that_there_is() {
        assert_eq!(filtered_call(), i64::from(std::os::unix::process::parent_id()));
    }

    /// A read of /dev/zero copies nothing: it clears.
    #[test]
    fn the_copy_is_told_by_reads_that_copy() {
        let group = phases();
        let copy = group.derived.iter().find(|derived| derived.name.contains("copy of 1000"));
        let copy = copy.expect("there is one");
        for part in copy.plus.iter().chain(&copy.minus) {
            let case = group.cases.iter().find(|case| case.name == *part).expect("a case");
            assert_eq!(case.params.access.as_deref(), Some("cached"), "{part}");
        }
    }
}
