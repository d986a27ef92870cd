//! TCP against other sides that send anything: what holds whatever comes, see there.

#![no_main]

#[path = "../../net/weir-net/tests/any_segments/mod.rs"]
#[allow(dead_code, reason = "the tests play games of their own")]
mod any_segments;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_segments::play(bytes));
