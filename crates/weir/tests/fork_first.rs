//! Children that are forked while their parent makes its very first end (docs/contracts/pipe.md, 16).

mod common;

use weir::{Options, pipe};

/// A process that makes its first end in one thread, and forks in another at the same time, a little
/// later in each process. The child makes an end too.
#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let turns: u32 = role.parse().expect("a number");
    let ready = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            drop(pipe(&Options::new()).expect("made"));
        });
        ready.wait();
        for _ in 0..turns {
            std::hint::spin_loop();
        }
        let body = || u8::from(pipe(&Options::new()).is_err());
        // SAFETY: other threads of this process have nothing locked that the body needs.
        let mut child = unsafe { weir_measure::sys::fork::copy(body) }.expect("forked");
        assert!(child.succeeded().expect("reaped"), "the child made one");
    });
}

/// A child that was forked while the sizes of the caches were read for the first time waited for them
/// for ever.
#[test]
fn a_child_that_is_forked_while_its_parent_makes_its_first_end_can_make_one() {
    for number in 0..40 {
        let (mut process, _socket) = common::start(&(number * 500).to_string());
        common::until("it has ended", || process.try_wait().expect("asked").is_some());
        assert!(process.wait().expect("reaped").success());
    }
}
