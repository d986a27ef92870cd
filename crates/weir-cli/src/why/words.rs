//! The answer of `weir why` in words.

use crate::report::outside;
use rustix::process::geteuid;
use weir_command::units::words::{of_cpus, percent, things};
use weir_command::units::{bytes, seconds, signal_name};
use weir_doctor::facts::{FileWait, FileWaitKind, HotStage, Peer, PeerKind};
use weir_doctor::programs::unbuffered;
use weir_doctor::why::{Cause, HeldBack, Lacks, Named, PipeWait, Stop, StuckThread, Why, WhyLink};

/// Most processes of a chain in one sentence.
const MOST_IN_SENTENCE: usize = 4;
/// What fills this share of the time is all that it did.
const MOSTLY: f64 = 0.95;

/// The answer, the chain where it is longer than the sentence, and what may help.
pub fn text(why: &Why) -> String {
    let mut lines = vec![answer(why)];
    if why.links.len() > MOST_IN_SENTENCE {
        let line = |(at, found): (usize, &WhyLink)| {
            format!("  {} {}", name(&found.named), clause(why, at))
        };
        lines.extend(why.links.iter().enumerate().map(line));
    }
    lines.extend(hints(why));
    lines.join("\n") + "\n"
}

/// The answer in one sentence: `4711 (wc -l) waits for data or the end of file from 4710 (grep x), which ...`.
pub fn answer(why: &Why) -> String {
    let Some(first) = why.links.first() else { return String::new() };
    let count = why.links.len();
    let mut sentence = format!("{} {}", name(&first.named), clause(why, 0));
    if count <= MOST_IN_SENTENCE {
        (1..count).for_each(|at| {
            sentence += &format!(", which {}", clause(why, at));
        });
    } else {
        let between = things(count as u64 - 2, "process");
        let last = &why.links[count - 1];
        sentence +=
            &format!("; behind {between} more, {} {}", name(&last.named), clause(why, count - 1));
    }
    match why.circle {
        Some(from)
            if why.links[from..].iter().any(|link| matches!(link.wait, Cause::Open { .. })) =>
        {
            sentence += ": they wait in a circle, if each is to open the FIFO of the other";
        }
        Some(from) => sentence += &circle(&why.links[from..]),
        None if why.cut => sentence += ", and so on",
        None => {}
    }
    sentence
}

/// `: they wait in a circle, ...`: a FIFO has a name, by which others may open it.
fn circle(links: &[WhyLink]) -> String {
    let fifo = links.iter().find_map(|link| match &link.wait {
        Cause::Pipe(pipe) => pipe.path.as_ref(),
        _ => None,
    });
    match fifo {
        Some(path) => {
            format!(": they wait in a circle, unless another process opens the FIFO {path}")
        }
        None => String::from(": they wait in a circle, and none of them can continue"),
    }
}

/// What may help, a line each.
pub fn hints(why: &Why) -> Vec<String> {
    let (mut hints, left) = (Vec::new(), why.left_open());
    for (at, found) in why.links.iter().enumerate() {
        let is_read =
            at > 0 && matches!(&why.links[at - 1].wait, Cause::Pipe(pipe) if !pipe.writes);
        if (at == 0 || is_read) && found.waits_for_more() {
            // What was left running is waited for to end.
            hints.extend(held(found, is_read && left != Some(at)));
        }
    }
    hints.extend(still(why));
    hints.extend(why.links.iter().flat_map(help));
    hints.extend(left.map(|at| left_open(&why.links[at].named)));
    if why.left_out > 0 {
        let others = things(why.left_out as u64, "process");
        hints.push(format!("there are too many processes to look at: {others} were left out"));
    }
    hints
}

fn held(found: &WhyLink, is_awaited: bool) -> Option<String> {
    let who = name(&found.named);
    let option = unbuffered(&found.named.command);
    match found.held_back? {
        HeldBack::Bytes(count) => Some(format!(
            "{who} keeps {} of output in its own buffer, since its output is not a terminal: try {option}",
            bytes(count)
        )),
        // Of the process itself that is not known to be the reason.
        HeldBack::Perhaps => is_awaited.then(|| format!(
            "{who} has written nothing yet; it may keep output in its own buffer, since its output is \
             not a terminal: try {option}"
        )),
    }
}

/// `4711 has not run for 12 min, 4712 for 11 min`.
fn still(why: &Why) -> Option<String> {
    /// A shorter time says nothing about a process that does something now and then.
    const LEAST_NS: u64 = 10_000_000_000;
    let long = |link: &WhyLink| Some((link.named.pid, link.still_ns.filter(|ns| *ns >= LEAST_NS)?));
    let mut all = why.links.iter().filter_map(long);
    let (pid, ns) = all.next()?;
    let more = all.map(|(pid, ns)| format!(", {pid} for {}", rough(ns))).collect::<String>();
    Some(format!("{pid} has not run for {}{more}", rough(ns)))
}

/// `50 s`, `12 min`, `5 h`, `3 days`: rounded down.
fn rough(ns: u64) -> String {
    match ns / 1_000_000_000 {
        s @ ..120 => format!("{s} s"),
        s @ ..7200 => format!("{} min", s / 60),
        s @ ..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

/// Where in the kernel each process waits, a line each.
pub fn stacks(why: &Why, stacks: &[Option<Vec<String>>]) -> String {
    let line = |(found, stack): (&WhyLink, &Option<Vec<String>>)| {
        let pid = found.named.pid;
        match stack {
            Some(frames) => format!("{pid} waits in the kernel in {}\n", frames.join(" < ")),
            None if geteuid().is_root() => {
                format!("{pid}: its stack in the kernel cannot be read\n")
            }
            None => format!("{pid}: root may see its stack in the kernel\n"),
        }
    };
    why.links.iter().zip(stacks).map(line).collect()
}

/// What ends the wait for a process that was left running.
fn left_open(left: &Named) -> String {
    let pid = left.pid;
    format!(
        "{pid} was left running by a process that has ended, and has the pipe open: close its output with \
         > /dev/null, wait for it, or end it: kill {pid}"
    )
}

fn help(found: &WhyLink) -> Vec<String> {
    let pid = found.named.pid;
    let traced = found.tracer.as_ref().filter(|_| !matches!(found.wait, Cause::Stopped(_)));
    let traced = traced.map(|tracer| {
        format!("{pid} is traced by {}: each of its system calls may wait for that", name(tracer))
    });
    let help = match &found.wait {
        Cause::Frozen { files } => return files.iter().flat_map(|file| thaw(file)).collect(),
        Cause::Stopped(stop) if is_for_terminal(stop) => {
            Some(format!("bring {pid} to the foreground of its terminal with fg"))
        }
        Cause::Stopped(Stop::Signal(_)) => Some(format!("kill -CONT {pid} lets it continue")),
        Cause::Pipe(PipeWait { unseen: true, looker: false, others, .. }) if others.is_empty() => {
            Some(String::from(
                "not all processes could be inspected: one of another user may have the other end (root sees all)",
            ))
        }
        Cause::Hidden { .. } if !geteuid().is_root() => Some(String::from("root may inspect it")),
        _ => None,
    };
    traced.into_iter().chain(help).collect()
}

/// What thaws a control group, by the file that says that it is frozen.
fn thaw(file: &str) -> Vec<String> {
    let word = if file.ends_with("cgroup.freeze") { "0" } else { "THAWED" };
    let mut lines = vec![format!("echo {word} > {file} lets it continue")];
    // Docker names groups by the numbers of containers: docker/NUMBER or docker-NUMBER.scope.
    let number = group(file).rsplit('/').next().unwrap_or_default();
    let number = number.trim_start_matches("docker-").trim_end_matches(".scope");
    if group(file).contains("docker") && number.len() == 64 {
        lines.push(format!("docker unpause {} does so too", &number[..12]));
    }
    lines
}

/// Returns the control group of one of its files.
fn group(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(group, _)| group)
}

/// What a process waits for, without naming it.
pub fn alone(found: &WhyLink) -> String {
    let alone = Why { links: vec![found.clone()], circle: None, cut: false, left_out: 0 };
    clause(&alone, 0)
}

/// Names the hottest function of a process.
fn function(hot: &HotStage) -> String {
    let Some(hottest) = hot.functions.first() else { return String::new() };
    let place = if hottest.kernel { "the kernel" } else { hottest.place.as_str() };
    let what = match &hottest.name {
        Some(name) => format!("{name} of {place}"),
        None => format!("{place}, which has no names of functions"),
    };
    let share = percent(hot.share(hottest));
    format!(", {share} of that in {what} ({} samples)", hot.samples)
}

/// What the process at this place waits for; the next one is named last, so that a clause may
/// follow.
fn clause(why: &Why, at: usize) -> String {
    let said = whole_clause(why, at);
    // What it did most, of a process that ran meanwhile.
    match (why.links[at].share.filter(|share| *share < MOSTLY), said.split_once(' ')) {
        (Some(share), Some((verb @ ("waits" | "sleeps" | "sleeps:"), rest))) => {
            let (verb, colon) =
                (verb.trim_end_matches(':'), if verb.ends_with(':') { ":" } else { "" });
            format!("{verb} {} of the time{colon} {rest}", percent(share))
        }
        _ => said,
    }
}

fn whole_clause(why: &Why, at: usize) -> String {
    let before = || {
        let others = why.links.get(at)?.others();
        why.links.iter().find(|link| others.contains(&link.named.pid))
    };
    let next = why.links.get(at + 1).or_else(|| why.links.get(why.circle?)).or_else(before);
    let next = next.map(|found| match found.wait {
        // Whoever only sleeps was left there by somebody.
        Cause::Sleep { .. } => name_with_parent(why, found),
        _ => name(&found.named),
    });
    let found = &why.links[at];
    match &found.wait {
        Cause::Computes { cpus: used } if *used < 0.05 => String::from("is running"),
        Cause::Computes { cpus: used } => {
            let most = found.hot.as_ref().map_or_else(String::new, function);
            format!("computes: it uses {}{most}", of_cpus(*used))
        }
        Cause::Cpu { share } => format!(
            "is ready to run, but other processes have the CPUs: it waited for one {} of the time",
            percent(*share)
        ),
        Cause::Quota { cpus: most } => {
            format!("has used up the CPU quota of its control group, {}", of_cpus(*most))
        }
        Cause::Frozen { files } => {
            let groups: Vec<&str> = files.iter().map(|file| group(file)).collect();
            format!("is frozen by its control group {}", groups.join(" and "))
        }
        Cause::Ended { .. } => match next {
            Some(parent) => {
                format!("has ended (a zombie): its status was not collected by its parent {parent}")
            }
            None if found.others().is_empty() => {
                String::from("has ended (a zombie), and nobody collects its status")
            }
            None => String::from("has ended (a zombie): its parent has not collected its status"),
        },
        Cause::Stopped(stop) => stopped(stop, next),
        Cause::Pipe(pipe) => self::pipe(pipe, next),
        Cause::Open { path, .. } => {
            let waits =
                format!("waits until another process opens the other end of the FIFO {path}");
            match next {
                Some(other) => format!("{waits}, perhaps {other}"),
                None => waits,
            }
        }
        Cause::Threads { .. } if !found.threads.is_empty() => threads(found),
        Cause::Lock { .. } | Cause::Polls { .. } | Cause::Semaphore => lock(&found.wait, next),
        Cause::Queue { .. } | Cause::Threads { .. } => lock(&found.wait, next),
        Cause::Child { .. } | Cause::Vfork { .. } | Cause::Ends { .. } => end(&found.wait, next),
        Cause::Connect { peer, .. } => connection(peer, next),
        Cause::Socket { peer, writes, own, more, .. } => {
            let is_made = *own && *more;
            let own = (peer.pid == Some(found.named.pid)).then_some(is_made);
            socket(peer, *writes, own, next)
        }
        Cause::Unanswered => String::from("has not answered"),
        Cause::File { wait, writes } => file(wait, *writes),
        Cause::Terminal { path, holders, writes } => {
            terminal(path, *writes, !holders.is_empty(), next)
        }
        Cause::Signal { most_ns, children } => signal(*most_ns, children, next),
        Cause::Sleep { asked_ns: Some(ns) } => format!("sleeps: it asked for {}", seconds(*ns)),
        Cause::Sleep { asked_ns: None } => String::from("sleeps until a time or a signal"),
        Cause::Events { of } => format!("waits for {}", of.join(" or ")),
        Cause::Kernel => String::from("is a thread of the kernel"),
        Cause::Unknown { kernel: Some(function) } => format!("waits in the kernel, in {function}"),
        Cause::Unknown { kernel: None } => String::from("waits for something that cannot be seen"),
        Cause::Hidden { uid } => hidden(*uid, geteuid().as_raw()),
    }
}

/// Why a process may not be inspected by user `own`.
pub fn hidden(uid: Option<u32>, own: u32) -> String {
    match uid {
        Some(_) if own == 0 => String::from(
            "may not be inspected, even by root: it has privileges that weir lacks, or the host forbids it",
        ),
        Some(uid) if uid == own => {
            String::from("may not be inspected, although it belongs to the same user")
        }
        Some(uid) => format!("may not be inspected: it belongs to user {uid}"),
        None => String::from("may not be inspected"),
    }
}

/// `4711 (grep x)`.
fn name(named: &Named) -> String {
    format!("{} ({})", named.pid, named.command)
}

/// `4711 (sleep 1000, started by 4700 (bash build.sh))`, unless that is in the chain itself.
fn name_with_parent(why: &Why, found: &WhyLink) -> String {
    let is_told = |parent: &Named| why.links.iter().any(|link| link.named.pid == parent.pid);
    let parent = found.parent.as_ref().filter(|parent| parent.pid > 1 && !is_told(parent));
    let started = parent.map(|parent| format!(", started by {}", name(parent)));
    format!("{} ({}{})", found.named.pid, found.named.command, started.unwrap_or_default())
}

/// Whether a process would stop again at once if it continued in the background of its terminal.
fn is_for_terminal(stop: &Stop) -> bool {
    match stop {
        Stop::InBackground => true,
        Stop::Signal(Some(signal)) => {
            ["SIGTTIN", "SIGTTOU"].contains(&signal_name(*signal).as_str())
        }
        _ => false,
    }
}

fn stopped(stop: &Stop, next: Option<String>) -> String {
    match stop {
        Stop::Debugger(pid) => match next {
            Some(debugger) => format!("is stopped by its debugger {debugger}"),
            None => format!("is stopped by its debugger {pid}"),
        },
        Stop::Signal(None) => String::from("is stopped (by a signal, such as that of Ctrl-Z)"),
        Stop::InBackground => {
            String::from("is stopped, and would read from its terminal in the background")
        }
        Stop::Signal(Some(signal)) => {
            let name = signal_name(*signal);
            let why = match name.as_str() {
                "SIGTTIN" => "it read from its terminal while in the background",
                "SIGTTOU" => "it used its terminal while in the background",
                "SIGTSTP" => "by Ctrl-Z, or by a program",
                _ => "by a program",
            };
            format!("is stopped by {name}: {why}")
        }
    }
}

/// The wait for a signal, of which the end of a child may be one.
fn signal(most_ns: Option<u64>, children: &[i32], next: Option<String>) -> String {
    let most = most_ns.map(|ns| format!(", for {} at most", seconds(ns))).unwrap_or_default();
    let such = match next {
        Some(child) => format!(", such as that of the end of its child {child}"),
        None if children.is_empty() => String::new(),
        None => String::from(", such as that of the end of a child"),
    };
    format!("waits for a signal{most}{such}")
}

/// The wait of the answering side of a pseudo-terminal.
fn terminal(path: &str, writes: bool, is_seen: bool, next: Option<String>) -> String {
    let what = if writes { "room in the input" } else { "output" };
    match next {
        Some(holder) => format!("waits for {what} of the terminal {path} of {holder}"),
        None if is_seen => format!("waits for {what} of the terminal {path}"),
        None => format!(
            "waits for {what} of the terminal {path}, which nobody else has open, as far as can be seen"
        ),
    }
}

fn pipe(pipe: &PipeWait, next: Option<String>) -> String {
    let what = match &pipe.path {
        Some(path) => format!("the FIFO {path}"),
        None => String::from("a pipe"),
    };
    let more = pipe.others.len().saturating_sub(1);
    let others = match more {
        0 => String::new(),
        1 => String::from(" (1 more has it open)"),
        more => format!(" ({more} more have it open)"),
    };
    match (pipe.writes, next) {
        // Who is known but not named here is in the list beside this text.
        (false, None) if !pipe.others.is_empty() => {
            format!("waits for data or the end of file from {what}")
        }
        (true, None) if !pipe.others.is_empty() => {
            format!("waits for room in {what}, which is full")
        }
        (false, None) if pipe.own => format!(
            "waits for data from {what} whose writing end it has open itself, so the end of file never comes"
        ),
        (false, Some(next)) => {
            format!("waits for data or the end of file from {what}{others} of {next}")
        }
        (false, None) if pipe.looker => {
            format!("waits for data or the end of file from {what} of weir itself")
        }
        (false, None) => format!("waits for data from {what} whose writer cannot be seen"),
        (true, Some(next)) => {
            format!("waits for room in {what}, which is full{others}: it is read by {next}")
        }
        (true, None) if pipe.own => {
            format!("waits for room in {what}, which is full and which only it could read")
        }
        (true, None) if pipe.looker => {
            format!("waits for room in {what}, which is full: it is read by weir itself")
        }
        (true, None) => {
            format!("waits for room in {what}, which is full and whose reader cannot be seen")
        }
    }
}

/// The wait for the end of a process.
fn end(wait: &Cause, next: Option<String>) -> String {
    let said = match (wait, next) {
        (Cause::Vfork { .. }, Some(child)) => {
            return format!(
                "waits for a program that is being started (vfork) by its child {child}"
            );
        }
        (Cause::Vfork { .. }, None) => "waits until a child starts a program or ends (vfork)",
        (Cause::Ends { .. }, Some(process)) => {
            return format!("waits for the end of {process}");
        }
        (Cause::Ends { .. }, None) => "waits for the end of another process",
        (_, Some(child)) => return format!("waits for the end of its child {child}"),
        (Cause::Child { looker: true, .. }, None) => {
            "waits for the end of a child, most likely of weir itself"
        }
        (Cause::Child { children, .. }, None) if children.is_empty() => {
            "waits for the end of a child, or of a process that it debugs, which cannot be seen"
        }
        _ => "waits for the end of a child",
    };
    String::from(said)
}

/// The wait for a lock, or for another thing that a process or a thread must release.
fn lock(wait: &Cause, next: Option<String>) -> String {
    let said = match (wait, next) {
        (Cause::Lock { path, .. }, Some(holder)) => {
            return format!("waits for {}, held by {holder}", locked(path.as_deref()));
        }
        (Cause::Lock { path, holders, own }, None) => match (path, own) {
            _ if !holders.is_empty() => return format!("waits for {}", locked(path.as_deref())),
            (Some(path), true) => {
                return format!(
                    "waits for the lock on {path}, which it holds itself, by another open of the file"
                );
            }
            (Some(path), false) => {
                return format!("waits for the lock on {path}; who holds it cannot be seen");
            }
            (None, true) => "waits for a lock in memory that it holds itself",
            (None, false) => "waits for a word in shared memory that another process must change",
        },
        (Cause::Polls { path, .. }, next) => {
            let held = next.map(|holder| format!(", held by {holder}")).unwrap_or_default();
            return format!("polls, most likely for {}{held}", locked(path.as_deref()));
        }
        (Cause::Queue { path: Some(path), writes: false }, _) => {
            return format!("waits for a message in the queue {path}");
        }
        (Cause::Queue { path: Some(path), writes: true }, _) => {
            return format!("waits for room in the message queue {path}, which is full");
        }
        (Cause::Queue { writes: false, .. }, _) => "waits for a message in a queue of System V",
        (Cause::Queue { .. }, _) => "waits for room in a message queue of System V, which is full",
        (Cause::Semaphore, _) => "waits for a semaphore of System V",
        (Cause::Threads { alone: true, timed: false }, _) => {
            "waits for a lock or a condition of its own, and has no other thread that could release it"
        }
        (Cause::Threads { alone: true, .. }, _) => {
            "waits for a lock or a condition of its own, for a limited time: it has no other thread that \
             could release it"
        }
        _ => "waits for another thread of its own (a lock or a condition)",
    };
    String::from(said)
}

/// The threads of a process that all wait for each other.
fn threads(found: &WhyLink) -> String {
    let thread = |one: &StuckThread| match one.lacks {
        Some(Lacks::Lock(holder)) if holder == one.id => {
            format!("{} ({}) for a lock that it holds itself", one.id, one.name)
        }
        Some(Lacks::Lock(holder)) => format!("{} ({}) for a lock of {holder}", one.id, one.name),
        Some(Lacks::End(other)) => format!("{} ({}) for the end of {other}", one.id, one.name),
        None => format!("{} ({})", one.id, one.name),
    };
    let all: Vec<String> = found.threads.iter().map(thread).collect();
    format!(
        "waits for another thread of its own (a lock or a condition), and so do all of its {} threads: {}",
        all.len(),
        all.join(", ")
    )
}

fn locked(path: Option<&str>) -> String {
    path.map_or_else(
        || String::from("a lock in shared memory"),
        |path| format!("the lock on {path}"),
    )
}

/// The wait for a connection that a process asked for.
fn connection(peer: &Peer, next: Option<String>) -> String {
    let far = outside::peer_name(peer);
    match next {
        Some(listener) => {
            format!("waits to be connected to {far}, the listening socket of {listener}")
        }
        None => format!("waits to be connected to {far}"),
    }
}

/// The wait for a socket; `own`: of one whose other end the process has open itself, whether only
/// that it made both is known.
fn socket(peer: &Peer, writes: bool, own: Option<bool>, next: Option<String>) -> String {
    let what = if writes { "room to send" } else { "data" };
    let far = outside::peer_name(peer);
    match (peer.kind, next) {
        (PeerKind::Listening, _) => format!("waits for {far}: nobody asks for its service"),
        (_, Some(next)) => match &peer.address {
            Some(address) => {
                format!("waits for {what} on its socket to {address}, the socket of {next}")
            }
            None => format!("waits for {what} on a socket of {next}"),
        },
        (_, None) if own == Some(true) => {
            format!("waits for {what} on a socket of a pair that it made")
        }
        (_, None) if own.is_some() => {
            format!("waits for {what} on a socket whose other end it has open itself")
        }
        (PeerKind::Remote, None) => {
            let way = if writes { "to" } else { "from" };
            format!("waits for {what} {way} the other host {far}")
        }
        (_, None) => format!("waits for {what} on {far}"),
    }
}

fn file(wait: &FileWait, writes: Option<bool>) -> String {
    let file = outside::file_name(wait);
    let is_terminal = wait.kind == FileWaitKind::Device && file.starts_with("the terminal");
    match writes.filter(|_| is_terminal) {
        Some(false) => format!("waits for {file}: somebody must type"),
        Some(true) => format!(
            "waits for room in the output of {file}: it is stopped (Ctrl-S), or nobody reads its other end"
        ),
        None => format!("waits for {file}"),
    }
}
