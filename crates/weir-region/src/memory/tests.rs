//! Memory that the limits of the process do not allow.

#[path = "../../../weir/src/memory/transfers/tests/faulty.rs"]
pub(crate) mod faulty;

use super::KernelPaged;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir::parts::{page_bytes, usual_directory};

/// The kernel would kill a process that makes a file longer than its limit.
#[test]
fn a_file_that_may_not_be_so_long_is_an_error_and_no_signal() {
    let body = || {
        let short = Rlimit { current: Some(page_bytes() - 1), ..getrlimit(Resource::Fsize) };
        let is_short = setrlimit(Resource::Fsize, short).is_ok();
        let is_error = KernelPaged::new(&usual_directory(), page_bytes() as usize).is_err();
        u8::from(!is_short || !is_error)
    };
    // SAFETY: the child makes no threads, and ends.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    assert!(child.expect("forked").succeeded().expect("reaped"), "it is an error");
}
