//! One process of a stage and its tasks.

use super::classify::{Endpoints, Hints, classify, socket};
use super::group::Unreaped;
use super::locale::locale_of;
use crate::attribution::calls::Call;
use crate::proc::{Blocked, Identity, field, is_taken, parse_io, peak_rss_bytes};
use rustix::io::Errno;
use weir_doctor::state::State;
use weir_sys::Pid;
use weir_sys::proc::{ProcFile, Sched, Stat, read_small};

/// A process: its tasks, and what was last seen of it.
#[derive(Debug, Default)]
pub struct Process {
    /// Its id.
    pub pid: Pid,
    /// Position of the group it belongs to.
    pub group: usize,
    /// Name of the program it runs, as the kernel cuts it (15 bytes).
    pub name: String,
    /// Its arguments, joined by spaces.
    pub command: String,
    /// The locale it compares text in, unless C or POSIX.
    pub locale: Option<String>,
    /// Number of times it was looked at.
    pub looks: u64,
    /// Whether its arguments and its environment were there when they were read.
    described: bool,
    tasks: Vec<Task>,
    io: Option<ProcFile>,
    /// Bytes and calls when last looked at.
    pub last_io: Option<weir_doctor::facts::Io>,
    /// Share of system time in its CPU time when last looked at, in parts of a thousand.
    pub system_permille: u64,
    /// Position of the group whose process started it.
    pub starter: usize,
    /// Its parent, when last seen; 0 of a process that was given and not found.
    pub parent: Pid,
    /// Its parent has ended and nobody of the group took its place: nobody there will wait for it.
    pub orphan: bool,
    /// Number of looks at which it had ended and nobody had waited for it.
    pub zombie_looks: u64,
    /// Number of ticks at which it was alive.
    pub ticks_alive: u64,
    /// Time that these stand for.
    pub alive_ns: u64,
    /// CPU and waiting time of its tasks that are gone.
    past: Sched,
    /// CPU time of the descendants that it waited for, to a clock tick.
    waited_ns: u64,
    /// System part of it.
    waited_system_ns: u64,
}

/// A thread.
#[derive(Debug)]
struct Task {
    id: Pid,
    syscall: Result<ProcFile, Errno>,
    sched: Option<ProcFile>,
    last: Sched,
    on_cpu_permille: u32,
}

/// What one look at a task shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its state.
    pub state: State,
    /// Of a running task, the share of the time since the last look in which it had a CPU.
    pub on_cpu_permille: u32,
    /// Its state could not be read for want of permission.
    pub hidden: bool,
    /// It was in a call whose bytes the kernel does not count.
    pub uncounted: bool,
    /// The socket that it waited for.
    pub socket: Option<i32>,
}

impl Process {
    /// Starts to look at process `pid`, with the one task it surely has.
    pub fn new(pid: Pid, group: usize) -> Process {
        let io = ProcFile::open(&format!("/proc/{pid}/io")).ok();
        let tasks = vec![Task::new(pid, pid)];
        Process { pid, group, starter: group, tasks, io, ..Process::default() }
    }

    /// Starts to look at a process that was found, and that a process of group `starter` started.
    pub fn found(found: Identity, group: usize, starter: usize) -> Process {
        let Identity { pid, parent, name } = found;
        Process { starter, parent, name, ..Process::new(pid, group) }
    }

    /// Whether it was found, and not given to start with.
    pub fn was_found(&self) -> bool {
        self.parent != 0
    }

    /// From now on its bytes are its own: the kernel adds to the count of a process those of the
    /// children that it waited for, but not to that of its one thread.
    pub fn count_alone(&mut self) {
        let pid = self.pid;
        self.io = ProcFile::open(&format!("/proc/{pid}/task/{pid}/io")).ok();
    }

    /// Adds a thread if it is not known yet.
    pub fn add_task(&mut self, id: Pid) {
        if self.tasks.iter().all(|task| task.id != id) {
            if self.tasks.len() == 1 {
                // Threads that end leave their bytes to the count of the process.
                self.io = ProcFile::open(&format!("/proc/{}/io", self.pid)).ok();
            }
            self.tasks.push(Task::new(self.pid, id));
        }
    }

    /// CPU time and waiting time of the tasks it has now, as last looked at.
    pub fn sched(&self) -> Sched {
        self.tasks.iter().fold(Sched::default(), |sum, task| sum.plus(task.last))
    }

    /// Looks at every task; `with_sched` also reads the CPU time of each. Returns what was seen
    /// and the totals of the tasks that are gone since the last look.
    pub fn look(&mut self, ends: &Endpoints, hints: Hints, with_sched: bool) -> (Vec<Look>, Sched) {
        self.looks += 1;
        let pid = self.pid;
        let (mut seen, mut gone) = (Vec::with_capacity(self.tasks.len()), Sched::default());
        self.tasks.retain_mut(|task| match task.look(pid, ends, hints, with_sched) {
            Some(look) => {
                seen.push(look);
                true
            }
            None => {
                gone = gone.plus(task.last);
                false
            }
        });
        self.past = self.past.plus(gone);
        (seen, gone)
    }

    /// Reads what is only worth reading now and then: the name, with what follows from it.
    /// Returns the peak memory.
    pub fn refresh(&mut self) -> Option<u64> {
        let mut buffer = [0; 4096];
        let pid = self.pid;
        let status = read_small(&format!("/proc/{pid}/status"), &mut buffer).ok()?;
        let (name, peak) =
            (field(&String::from_utf8_lossy(status), "Name")?.to_owned(), peak_rss_bytes(status));
        let is_new = name != self.name;
        if is_new || !self.described {
            self.name = name;
            self.describe(is_new);
        }
        peak
    }

    /// Reads the arguments, and the locale. In the middle of execve(2) a process has its new name
    /// and neither arguments nor environment: then it is asked again the next time.
    fn describe(&mut self, is_new: bool) {
        let mut buffer = vec![0; 65_536];
        let pid = self.pid;
        let text = read_small(&format!("/proc/{pid}/cmdline"), &mut buffer).unwrap_or(&[]);
        let has_arguments = !text.is_empty();
        // One that has ended has none any more.
        if is_new || has_arguments {
            self.command = words_of(text).join(" ");
            let text = read_small(&format!("/proc/{pid}/environ"), &mut buffer).unwrap_or(&[]);
            self.locale = locale_of(&words_of(text));
            self.described = has_arguments && !text.is_empty();
        }
    }

    /// Reads the totals that nobody will be able to read when it has ended: bytes, and how its
    /// CPU time divides.
    pub fn refresh_totals(&mut self) {
        let mut buffer = [0; 1024];
        let stat = read_small(&format!("/proc/{}/stat", self.pid), &mut buffer).ok();
        if let Some(stat) = stat.and_then(Stat::parse) {
            let share = (stat.system_ticks * 1000).checked_div(stat.own_ticks);
            self.system_permille = share.unwrap_or(self.system_permille);
            let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
            self.waited_ns = stat.waited_ticks * tick_ns;
            self.waited_system_ns = stat.waited_system_ticks * tick_ns;
        }
        let io = self.io.as_ref().and_then(|io| parse_io(io.read(&mut buffer).ok()?));
        self.last_io = io.or(self.last_io);
    }

    /// Reads its final totals, if it is still there, running or ended: CPU time, how that divides,
    /// bytes. Returns its state letter and its parent.
    pub fn last_look(&mut self) -> Option<(u8, Pid)> {
        let mut buffer = [0; 1024];
        let text = read_small(&format!("/proc/{}/stat", self.pid), &mut buffer).ok()?;
        let stat = Stat::parse(text)?;
        for task in &mut self.tasks {
            task.measure_on_cpu();
        }
        self.refresh_totals();
        Some((stat.state, stat.parent))
    }

    /// What it used, and those that it waited for, as last seen.
    pub fn used(&self) -> Unreaped {
        let cpu_ns = self.past.plus(self.sched()).cpu_ns;
        let system_ns = cpu_ns / 1000 * self.system_permille + self.waited_system_ns;
        let cpu_ns = cpu_ns + self.waited_ns;
        Unreaped { processes: 1, cpu_ns, system_ns, io: self.last_io.unwrap_or_default() }
    }
}

impl Task {
    fn new(pid: Pid, id: Pid) -> Task {
        let open = |file| ProcFile::open(&format!("/proc/{pid}/task/{id}/{file}"));
        let (syscall, sched) = (open("syscall"), open("schedstat").ok());
        Task { id, syscall, sched, last: Sched::default(), on_cpu_permille: 1000 }
    }

    /// Looks at the task; `None` when it is gone.
    fn look(&mut self, pid: Pid, ends: &Endpoints, hints: Hints, sched: bool) -> Option<Look> {
        if sched {
            self.on_cpu_permille = self.measure_on_cpu();
        }
        let on_cpu_permille = self.on_cpu_permille;
        let mut look = Look {
            state: State::Unknown,
            on_cpu_permille,
            hidden: false,
            uncounted: false,
            socket: None,
        };
        let mut buffer = [0; 256];
        let read = match &self.syscall {
            Ok(file) => file.read(&mut buffer),
            Err(error) => Err(*error),
        };
        let blocked = match read {
            Ok(text) => Blocked::parse(text),
            Err(Errno::SRCH) => return None,
            Err(_) => None,
        };
        look.state = match blocked {
            Some(Blocked::Running) => State::Running,
            Some(Blocked::Call(number, args)) => {
                let call = Call::decode(number, &args);
                look.uncounted = call.moves_uncounted();
                let state = classify(pid, call, ends, hints);
                look.socket = (state == State::Network).then(|| socket(pid, call)).flatten();
                state
            }
            Some(Blocked::NotInCall) => State::Disk,
            None => {
                look.hidden = true;
                State::Unknown
            }
        };
        // Whether a wait for storage, or one outside any call (a page fault), really is for the
        // disk, and all that is known of a hidden task, stands in its state letter.
        if matches!(look.state, State::Disk | State::Unknown) {
            let letter = match self.letter(pid) {
                Some(letter) => letter,
                // Hidden altogether, as another user's process may be.
                None if is_taken(self.id) => b'?',
                None => return None,
            };
            look.hidden |= letter == b'?';
            look.state = match (letter, look.state) {
                (b'?', _) => State::Unknown,
                (b'R', _) => State::Running,
                (b'D', _) => State::Disk,
                (b'T' | b't', _) => State::Stopped,
                (b'Z' | b'X', _) => return None,
                (_, State::Disk) if blocked != Some(Blocked::NotInCall) => State::File,
                _ => State::Unknown,
            };
        }
        Some(look)
    }

    fn measure_on_cpu(&mut self) -> u32 {
        let mut buffer = [0; 128];
        let now = self.sched.as_ref().and_then(|file| Sched::parse(file.read(&mut buffer).ok()?));
        let Some(now) = now else { return 1000 };
        let cpu = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        let queue = now.queue_ns.saturating_sub(self.last.queue_ns);
        self.last = now;
        (cpu * 1000).checked_div(cpu + queue).unwrap_or(1000) as u32
    }

    /// The state letter; `None` when the task is gone.
    fn letter(&self, pid: Pid) -> Option<u8> {
        let mut buffer = [0; 512];
        let text = read_small(&format!("/proc/{pid}/task/{}/stat", self.id), &mut buffer).ok()?;
        let after = text.iter().rposition(|b| *b == b')')?;
        text.get(after + 2).copied()
    }
}

fn words_of(text: &[u8]) -> Vec<String> {
    let words = text.split(|b| *b == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Descriptor;
    use std::process::{Child, Command, Stdio};

    /// Looks at a child until it is in the state, for at most some thousands of looks.
    fn comes_to(child: &Child, ends: &Endpoints, state: State) -> bool {
        let mut process = Process::new(child.id() as Pid, 0);
        (0..200_000).any(|_| {
            std::thread::yield_now();
            process.look(ends, Hints::default(), true).0.iter().any(|look| look.state == state)
        })
    }

    #[test]
    fn a_real_child_is_seen_reading_and_asleep() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let input = cat.stdin.as_ref().and_then(Descriptor::of);
        assert!(comes_to(&cat, &Endpoints { input, output: None }, State::BlockedIn));
        drop(cat.stdin.take());
        cat.wait().expect("waited");
        let mut sleep = Command::new("sleep").arg("60").spawn().expect("sleep");
        assert!(comes_to(&sleep, &Endpoints::default(), State::Sleep));
        sleep.kill().expect("killed");
        sleep.wait().expect("waited");
    }

    #[test]
    fn a_process_that_is_gone_shows_nothing() {
        let mut child = Command::new("true").spawn().expect("true");
        let mut process = Process::new(child.id() as Pid, 0);
        child.wait().expect("waited");
        let (seen, _) = process.look(&Endpoints::default(), Hints::default(), true);
        assert_eq!(seen, vec![]);
    }
}
