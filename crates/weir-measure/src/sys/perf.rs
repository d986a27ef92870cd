//! Samples of program counters by `perf_event_open(2)`.
//!
//! A [`Group`] has one ring of memory for each CPU. Every event that is opened in it, for one task
//! on one CPU, writes its records into that CPU's ring. Events are inherited by the threads and
//! processes that the task starts. The kernel writes records, [`Group::take`] copies them out; what
//! they mean is for the caller to find out.

use crate::sys::{Pid, check};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_sys::mapping::{Access, Mapping};

/// Pages of a ring, without the page of its positions; a power of two.
const RING_PAGES: usize = 32;
/// Where the kernel's page has the position up to which it wrote, and the one up to which it may
/// write (`struct perf_event_mmap_page`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

const TYPE_SOFTWARE: u32 = 1;
const SOFTWARE_CPU_CLOCK: u64 = 0;
const SAMPLE_IP_TID_TIME: u64 = 1 | 2 | 4;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQUENCY: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;

/// `struct perf_event_attr` as of its fifth version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    frequency_hz: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// The rings of all CPUs, and the events that write into them.
#[derive(Debug)]
pub struct Group {
    frequency_hz: u64,
    kernel: bool,
    rings: Vec<Ring>,
    events: Vec<OwnedFd>,
}

/// The memory of one CPU, and the event that owns it.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    map: Mapping,
    owner: OwnedFd,
    page: usize,
}

// SAFETY: the mapping belongs to the ring alone, and nothing in it depends on the thread.
unsafe impl Send for Ring {}

impl Group {
    /// Makes a group without events, which samples so many times a second of CPU time. With
    /// `kernel`, what the kernel does for a task is sampled too.
    pub fn new(frequency_hz: u64, kernel: bool) -> Group {
        Group { frequency_hz, kernel, rings: Vec::new(), events: Vec::new() }
    }

    /// Samples a task, and what it starts, on these CPUs from now on. Returns the number that its
    /// records bear, for each CPU. An offline CPU is left out.
    ///
    /// # Errors
    /// `EACCES` or `EPERM`: not allowed. `ENOSYS`: the kernel has no such call. `ESRCH`: the task
    /// has ended.
    pub fn add(&mut self, task: Pid, cpus: &[u32]) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for cpu in cpus {
            let event = match self.open(task, *cpu) {
                // The CPU is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                event => event?,
            };
            let mut number = 0_u64;
            // SAFETY: the request writes one u64 to the pointer, which is a live local's.
            check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID as _, &raw mut number) })?;
            numbers.push(number);
            match self.rings.iter().find(|ring| ring.cpu == *cpu) {
                Some(ring) => {
                    let (fd, owner) = (event.as_raw_fd(), ring.owner.as_raw_fd());
                    // SAFETY: the request takes a descriptor by value.
                    check(unsafe { libc::ioctl(fd, IOC_SET_OUTPUT as _, owner) })?;
                    self.events.push(event);
                }
                None => self.rings.push(Ring::map(*cpu, event)?),
            }
        }
        Ok(numbers)
    }

    fn open(&self, task: Pid, cpu: u32) -> io::Result<OwnedFd> {
        let kernel = if self.kernel { 0 } else { EXCLUDE_KERNEL };
        let records = MMAP | MMAP2 | COMM | COMM_EXEC | TASK | SAMPLE_ID_ALL;
        let attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: SOFTWARE_CPU_CLOCK,
            frequency_hz: self.frequency_hz,
            sample_type: SAMPLE_IP_TID_TIME | SAMPLE_IDENTIFIER,
            flags: INHERIT | FREQUENCY | EXCLUDE_HYPERVISOR | USE_CLOCKID | records | kernel,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        // SAFETY: `attributes` is a live local of the size that it states, and the kernel only
        // reads it. The other arguments are values.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                task,
                cpu,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        let fd = i32::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let fd = check(fd)?;
        // SAFETY: the call has just returned this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Appends to `records` what the kernel has written since the last call. Whole records lie one
    /// behind the other; those of a CPU are in order of time.
    pub fn take(&mut self, records: &mut Vec<u8>) {
        self.rings.iter_mut().for_each(|ring| ring.take(records));
    }
}

impl Ring {
    fn map(cpu: u32, owner: OwnedFd) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let map = Mapping::of_fd(&owner, 0, (RING_PAGES + 1) * page, Access::ReadWrite)?;
        Ok(Ring { cpu, map, owner, page })
    }

    /// Returns one of the two positions in the kernel's page.
    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both offsets are within the first page of the mapping, which lives as long as the
        // ring.
        let word = unsafe { self.map.start().add(at) };
        // SAFETY: the word is aligned to 8 bytes (the page is, and so are the offsets), and the
        // kernel reads and writes it as one word.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    fn take(&mut self, records: &mut Vec<u8>) {
        // Acquire: pairs with the kernel's barrier before it stores the head; the records up to it
        // are complete.
        let head = self.position(HEAD).load(Ordering::Acquire);
        // Relaxed: only this process stores the tail.
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let size = RING_PAGES * self.page;
        let filled = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(size);
        let from = (tail % size as u64) as usize;
        for (from, length) in
            [(from, filled.min(size - from)), (0, filled.saturating_sub(size - from))]
        {
            // SAFETY: `from` is less than `size`, and the data begin behind the first page.
            let start = unsafe { self.map.start().add(self.page + from) };
            // SAFETY: `from + length` is at most `size`, all within the mapping. The kernel does
            // not write between tail and head until the tail is stored below.
            let bytes = unsafe { std::slice::from_raw_parts(start, length) };
            records.extend_from_slice(bytes);
        }
        // Release: the copies above are done before the kernel may write there; pairs with the
        // control dependency of the kernel, which loads the tail before it writes.
        self.position(TAIL).store(head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_is_sampled() {
        let mut group = Group::new(1000, false);
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        // A number beyond the last CPU that the machine could have is an error, not one left out.
        let usable = rustix::thread::sched_getaffinity(None).expect("a set of CPUs");
        let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| usable.is_set(*cpu));
        let cpus: Vec<u32> = cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect();
        let numbers = match group.add(own, &cpus) {
            Ok(numbers) => numbers,
            Err(error) => return println!("SKIPPED: perf_event_open: {error}"),
        };
        assert!(!numbers.is_empty());
        let (mut records, mut sum) = (Vec::new(), 0_u64);
        let begun = std::time::Instant::now();
        while !records.windows(8).any(|word| numbers.iter().any(|one| word == one.to_ne_bytes())) {
            (0..1_000_000_u64).for_each(|at| sum = std::hint::black_box(sum.wrapping_add(at)));
            group.take(&mut records);
            assert!(begun.elapsed().as_secs() < 20, "no sample");
        }
    }
}
