//! The layout of the table, which is a file once it is published, in words of 8 bytes.
//!
//! ```text
//! word      0  magic | version | process id | its start, in clock ticks since the machine's
//!           4  ticks a second | which clock | - | -
//!           8  name of the process, 32 bytes
//!          16  on until (in ticks; 0 is off) | on since | wanted by the process itself | - ...
//!          24  threads without a table | subroutines without a row | long times settled together
//!          32  thread id of the owner of each table, 0 for none
//!          64  what each row is: 0 nothing, 1 a subroutine, 2 a system call
//!         512  names of the rows, 32 bytes each
//!        1024  tables of 512 words, one a thread: the calls of all rows, then their user ticks, their
//!              system ticks and their waiting ticks
//! ```
//!
//! A thread counts in few rows, in which it counts often. So calls lie together: eight rows share a
//! cache line.
//!
//! Names are UTF-8, padded with zeros. A row's kind is stored after its name. Only the process
//! writes the words other than 16 and 17, and only its thread writes a thread's table.

pub const MAGIC: u64 = u64::from_le_bytes(*b"weirprof");
pub const VERSION: u64 = 1;

pub const MAGIC_AT: usize = 0;
pub const VERSION_AT: usize = 1;
pub const PID_AT: usize = 2;
pub const STARTED_AT: usize = 3;
pub const HZ_AT: usize = 4;
pub const CLOCK_AT: usize = 5;
pub const PROCESS_AT: usize = 8;
pub const UNTIL_AT: usize = 16;
pub const SINCE_AT: usize = 17;
pub const WANTED_AT: usize = 18;
pub const THREADS_LOST_AT: usize = 24;
pub const SUBROUTINES_LOST_AT: usize = 25;
pub const TOGETHER_AT: usize = 26;
pub const OWNERS_AT: usize = 32;
pub const KINDS_AT: usize = 64;
pub const NAMES_AT: usize = 512;
pub const TABLES_AT: usize = 1024;

pub const NAME_BYTES: usize = 32;
pub const NAME_WORDS: usize = NAME_BYTES / 8;
/// Rows: three of the profile's own, and one for each use of a subroutine.
pub const ROWS: usize = 128;
pub const THREADS: usize = 32;
pub const COLUMNS: usize = 4;
pub const TABLE_WORDS: usize = ROWS * COLUMNS;
pub const WORDS: usize = TABLES_AT + THREADS * TABLE_WORDS;

pub const CALLS: usize = 0;
pub const USER: usize = 1;
pub const SYSTEM: usize = 2;
pub const WAIT: usize = 3;

/// The row of time outside of all spans. Its user column is not reported: it belongs to no
/// subroutine.
pub const OUTSIDE: usize = 0;
/// The row of readings of the CPU clock.
pub const OWN: usize = 1;
/// The row of gaps, in which the thread counts without reading the clock. User and waiting ticks are
/// those of gaps that are over. An observer divides them among the other rows.
pub const UNTIMED: usize = 2;
/// In that row: what the thread's CPU clock said when the gap began that is not over, in ns, or 0;
/// and the most CPU time with which that gap counts, in ns.
pub const GAP_CPU_NS: usize = SYSTEM;
pub const GAP_MOST_NS: usize = CALLS;
pub const FIRST: usize = 3;
/// The names of the rows that always exist.
pub const FIXED: [&str; FIRST] = ["(outside)", "(the profile)", "(not timed)"];

/// Kind of a row: a subroutine, counted by spans.
pub const KIND_SPAN: u64 = 1;
pub const KIND_CALL: u64 = 2;

pub const CLOCK_COUNTER: u64 = 1;
/// Clock kind: the nanoseconds of CLOCK_MONOTONIC.
pub const CLOCK_MONOTONIC: u64 = 2;

/// How long an observer switches a profile on; it renews this again and again.
pub const LEASE_NS: u64 = 2_000_000_000;

const _: () = assert!(OWNERS_AT + THREADS <= KINDS_AT && KINDS_AT + ROWS <= NAMES_AT);
const _: () = assert!(NAMES_AT + ROWS * NAME_WORDS <= TABLES_AT);
