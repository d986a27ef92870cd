//! The profile of another process, observed through the file it has published.
//!
//! The file is read by pread(2) and never mapped, so shortening it cannot harm the observer.

use super::clock;
use super::cpu::{Cpu, task_ns};
use super::layout::{LEASE_NS, SINCE_AT, UNTIL_AT, WORDS};
use super::report::ProfileReport;
use super::snapshot::{TableFault, TableSnapshot, middle};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The profile of another process.
///
/// Once switched on, it stays on for [`super::LEASE`], and must be renewed to stay on longer. So
/// several observers do not switch each other's off, and one that is killed leaves none on. An
/// observer that is done lets the lease run out.
#[derive(Debug)]
pub struct Observed {
    file: File,
    writable: bool,
    /// Since when it has been on without a break, in ticks, as of the last renewal.
    since: Option<u64>,
    /// Whether it was off in between.
    broken: bool,
}

/// A snapshot of a profile, with the kernel's CPU time and the time of day.
#[derive(Clone, Debug)]
pub struct Observation {
    snapshot: TableSnapshot,
    cpu: Option<Cpu>,
    at: Instant,
    broken: bool,
}

impl Observed {
    /// Opens a published profile of a living or an ended process. One that may only be read can be
    /// observed, but not switched on.
    ///
    /// # Errors
    /// `InvalidData`: it is not a profile. `PermissionDenied`: it is another user's, and this is
    /// not root. Else those of open(2).
    pub fn open(path: &Path) -> io::Result<Observed> {
        // Opening must not block on a FIFO in its place.
        let common = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |mode| rustix::fs::open(path, common | mode, Mode::empty());
        let (file, writable) = match open(OFlags::RDWR) {
            Ok(file) => (file, true),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS) => {
                (open(OFlags::RDONLY)?, false)
            }
            Err(error) => return Err(error.into()),
        };
        let file = File::from(file);
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong("it is not a file"));
        }
        let me = rustix::process::geteuid();
        if stat.st_uid != me.as_raw() && !me.is_root() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let observed = Observed { file, writable, since: None, broken: false };
        observed.snapshot()?;
        Ok(observed)
    }

    /// Switches it on for [`super::LEASE`], or extends that.
    ///
    /// # Errors
    /// `PermissionDenied`: it may only be read. `Unsupported`: its clock is not the one here.
    /// `InvalidData`: it is no longer a profile. Else those of pwrite(2).
    pub fn renew(&mut self) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (clock, table) = (clock::clock(), self.read()?);
        if clock.kind != table.clock {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "its clock is not known here"));
        }
        let now = clock.now();
        let since = if table.until <= now {
            self.write(SINCE_AT, now)?;
            now
        } else {
            table.since
        };
        // If two observers race, the shorter lease may win; it is renewed before it ends.
        self.write(UNTIL_AT, table.until.max(now.saturating_add(clock.ticks(LEASE_NS))))?;
        self.broken |= self.since.is_some_and(|before| before != since);
        self.since = Some(since);
        Ok(())
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// `InvalidData`: it is not a profile. Else those of pread(2).
    pub fn snapshot(&self) -> io::Result<Observation> {
        Ok(Observation { broken: self.broken, ..Observation::now(self.read()?) })
    }

    fn read(&self) -> io::Result<TableSnapshot> {
        let (a, b, c) = (self.words()?, self.words()?, self.words()?);
        TableSnapshot::parse(&middle([&a, &b, &c])).map_err(wrong)
    }

    fn words(&self) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; WORDS * 8];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {
                Ok(bytes.as_chunks().0.iter().map(|eight| u64::from_ne_bytes(*eight)).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(wrong("it is too short for a profile"))
            }
            Err(error) => Err(error),
        }
    }

    fn write(&self, word: usize, value: u64) -> io::Result<()> {
        self.file.write_all_at(&value.to_ne_bytes(), word as u64 * 8)
    }
}

pub(super) fn wrong(why: TableFault) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Observation {
    pub(super) fn now(mut snapshot: TableSnapshot) -> Observation {
        let pid = snapshot.pid;
        snapshot.close_gaps(|task| task_ns(pid, task));
        let cpu = Cpu::of(snapshot.pid, snapshot.started_ticks);
        Observation { snapshot, cpu, at: Instant::now(), broken: false }
    }

    /// Returns the name of the process.
    pub fn process(&self) -> &str {
        &self.snapshot.process
    }

    /// Returns its process id.
    pub fn pid(&self) -> i32 {
        self.snapshot.pid
    }

    /// Whether the process has ended.
    pub fn is_gone(&self) -> bool {
        self.cpu.is_none()
    }
}

impl ProfileReport {
    /// Reports what happened between two snapshots.
    ///
    /// # Errors
    /// `InvalidData`: they are of different processes or in the wrong order, or the process has
    /// written invalid data.
    pub fn between(before: &Observation, after: &Observation) -> io::Result<ProfileReport> {
        let mut report = ProfileReport::since(after, &before.snapshot)?;
        let interval = after.at.saturating_duration_since(before.at);
        report.interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        report.cpu = after.cpu.zip(before.cpu).map(|(after, before)| after.since(before));
        if after.broken {
            report.notes.push(String::from("the profile was off for a part of the interval"));
        }
        Ok(report)
    }

    /// Reports all counts since the beginning, for a process that has ended. The interval and the
    /// kernel's CPU time are unknown.
    ///
    /// # Errors
    /// `InvalidData`: the process has written invalid data.
    pub fn whole(sight: &Observation) -> io::Result<ProfileReport> {
        ProfileReport::since(sight, &sight.snapshot.nothing())
    }

    fn since(after: &Observation, then: &TableSnapshot) -> io::Result<ProfileReport> {
        let now = &after.snapshot;
        if !now.same_process(then) {
            return Err(wrong("it belongs to another process now"));
        }
        let mut report = ProfileReport::new(&now.process, now.pid, now.since(then).map_err(wrong)?);
        report.gone = after.is_gone();
        report.together = now.together.saturating_sub(then.together);
        report.note(after);
        Ok(report)
    }

    fn note(&mut self, sight: &Observation) {
        let snapshot = &sight.snapshot;
        if self.gone {
            self.notes.push(format!("process {} is gone", snapshot.pid));
        }
        for (count, what, most) in [
            (snapshot.threads_lost, "threads", "32 at once"),
            (snapshot.subroutines_lost, "subroutines", "125"),
        ] {
            if count > 0 {
                self.notes
                    .push(format!("{what} not counted: {count}, there were more than {most}"));
            }
        }
    }
}
