//! The answer of `weir why` in words.

use crate::report::outside;
use crate::units::words::{cpus, percent, things};
use crate::units::{bytes, seconds, signal_name};
use weir_doctor::facts::{FileWait, FileWaitKind, HotStage, PeerKind};
use weir_doctor::why::{Cause, HeldBack, Named, PipeWait, Stop, Why, WhyLink};

/// Most processes of a chain in one sentence.
const MOST_IN_SENTENCE: usize = 4;

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
            let comma = if sentence.ends_with(',') { "" } else { "," };
            sentence += &format!("{comma} which {}", clause(why, at));
        });
    } else {
        let between = things(count as u64 - 2, "process");
        let last = &why.links[count - 1];
        sentence +=
            &format!("; behind {between} more, {} {}", name(&last.named), clause(why, count - 1));
    }
    match why.circle {
        Some(_) => sentence += ": they wait in a circle, and none of them can go on",
        None if why.cut => sentence += ", and so on",
        None => {}
    }
    sentence
}

/// What may help, a line each.
pub fn hints(why: &Why) -> Vec<String> {
    let mut hints = Vec::new();
    for (at, found) in why.links.iter().enumerate() {
        let is_read =
            at > 0 && matches!(&why.links[at - 1].wait, Cause::Pipe(pipe) if !pipe.writes);
        if at == 0 || is_read {
            hints.extend(held(found));
        }
    }
    hints.extend(why.links.iter().filter_map(help));
    hints
}

fn held(found: &WhyLink) -> Option<String> {
    let who = name(&found.named);
    let option = unbuffered(&found.named.command);
    match found.held_back? {
        HeldBack::Bytes(count) => Some(format!(
            "{who} keeps {} of output in its own buffer, since its output is no terminal: try {option}",
            bytes(count)
        )),
        HeldBack::Perhaps => Some(format!(
            "{who} has written nothing yet; it may keep output in its own buffer, since its output is \
             no terminal: try {option}"
        )),
    }
}

/// What makes a program write at once.
fn unbuffered(command: &str) -> &'static str {
    let program = command.split(' ').next().and_then(|word| word.rsplit('/').next());
    match program.unwrap_or_default() {
        "grep" | "egrep" | "fgrep" => "grep --line-buffered",
        "sed" => "sed -u",
        "jq" => "jq --unbuffered",
        "awk" | "gawk" | "mawk" => "fflush() in its program",
        name if name.starts_with("python") => "python -u",
        name if name.starts_with("perl") => "$| = 1 in its program",
        _ => "stdbuf -oL in front of it",
    }
}

fn help(found: &WhyLink) -> Option<String> {
    let pid = found.named.pid;
    match &found.wait {
        Cause::Stopped(Stop::Signal(Some(signal))) if is_terminal_stop(*signal) => {
            Some(String::from("bring it to the foreground of its terminal with fg"))
        }
        Cause::Stopped(Stop::Signal(_)) => Some(format!("kill -CONT {pid} lets it go on")),
        Cause::Pipe(PipeWait { unseen: true, looker: false, others, .. }) if others.is_empty() => {
            Some(String::from(
                "not all processes could be inspected: one of another user may have the other end (root sees all)",
            ))
        }
        Cause::Hidden { .. } => Some(String::from("root may inspect it")),
        _ => None,
    }
}

/// What a process waits for, without naming it.
pub fn alone(found: &WhyLink) -> String {
    let alone = Why { links: vec![found.clone()], circle: None, cut: false };
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
    let next = why.links.get(at + 1).or_else(|| why.links.get(why.circle?));
    let next = next.map(|found| match found.wait {
        // Whoever only sleeps was left there by somebody.
        Cause::Sleep { .. } => name_with_parent(found),
        _ => name(&found.named),
    });
    let found = &why.links[at];
    match &found.wait {
        Cause::Computes { cpus: used } if *used < 0.05 => String::from("is running"),
        Cause::Computes { cpus: used } => {
            let most = found.hot.as_ref().map_or_else(String::new, function);
            format!("computes: it uses {} CPUs{most}", cpus(*used))
        }
        Cause::Cpu { share } => format!(
            "is ready to run, but other processes have the CPUs: it waited for one {} of the time",
            percent(*share)
        ),
        Cause::Quota { cpus: most } => {
            format!("has used up the CPU quota of its control group, {} CPUs", cpus(*most))
        }
        Cause::Frozen => String::from("is frozen by its control group"),
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
        Cause::Open { path } => {
            format!("waits until another process opens the other end of the FIFO {path}")
        }
        Cause::Lock { path, holders } => lock(path.as_deref(), holders, next),
        Cause::Threads => {
            String::from("waits for another thread of its own (a lock or a condition)")
        }
        Cause::Child { .. } => match next {
            Some(child) => format!("waits for the end of its child {child}"),
            None => String::from(a_child(&found.wait)),
        },
        Cause::Socket { peer, writes } => {
            let own = peer.pid == Some(found.named.pid);
            socket(peer, *writes, own, next)
        }
        Cause::File(wait) => file(wait),
        Cause::Sleep { asked_ns: Some(ns) } => format!("sleeps: it asked for {}", seconds(*ns)),
        Cause::Sleep { asked_ns: None } => String::from("sleeps until a time or a signal"),
        Cause::Events { of } => format!("waits for {}", of.join(" or ")),
        Cause::Kernel => String::from("is a thread of the kernel"),
        Cause::Unknown { kernel: Some(function) } => format!("waits in the kernel, in {function}"),
        Cause::Unknown { kernel: None } => String::from("waits for something that cannot be seen"),
        Cause::Hidden { uid: Some(uid) } => {
            format!("may not be inspected: it belongs to user {uid}")
        }
        Cause::Hidden { uid: None } => String::from("may not be inspected"),
    }
}

/// `4711 (grep x)`.
fn name(named: &Named) -> String {
    format!("{} ({})", named.pid, named.command)
}

/// `4711 (sleep 1000), started by 4700 (bash build.sh)`.
fn name_with_parent(found: &WhyLink) -> String {
    let parent = found.parent.as_ref().filter(|parent| parent.pid > 1);
    let started = parent.map(|parent| format!(", started by {},", name(parent)));
    format!("{}{}", name(&found.named), started.unwrap_or_default())
}

/// Whether a process gets this signal for using its terminal in the background.
fn is_terminal_stop(signal: i32) -> bool {
    ["SIGTTIN", "SIGTTOU"].contains(&signal_name(signal).as_str())
}

fn stopped(stop: &Stop, next: Option<String>) -> String {
    match stop {
        Stop::Debugger(pid) => match next {
            Some(debugger) => format!("is stopped by its debugger {debugger}"),
            None => format!("is stopped by its debugger {pid}"),
        },
        Stop::Signal(None) => String::from("is stopped (by a signal, such as that of Ctrl-Z)"),
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

/// The wait for a child that is not named.
fn a_child(wait: &Cause) -> &'static str {
    match wait {
        Cause::Child { looker: true, .. } => {
            "waits for the end of a child, most likely of weir itself"
        }
        Cause::Child { children, .. } if children.is_empty() => {
            "waits for the end of a child, and has none"
        }
        _ => "waits for the end of a child",
    }
}

fn lock(path: Option<&str>, holders: &[i32], next: Option<String>) -> String {
    let what = path.map_or_else(
        || String::from("a lock in shared memory"),
        |path| format!("the lock on {path}"),
    );
    match next {
        Some(holder) => format!("waits for {what}, held by {holder}"),
        None if !holders.is_empty() => format!("waits for {what}"),
        None if path.is_some() => format!("waits for {what}; who holds it cannot be seen"),
        None => String::from("waits for a word in shared memory that another process must change"),
    }
}

fn socket(
    peer: &weir_doctor::facts::Peer,
    writes: bool,
    own: bool,
    next: Option<String>,
) -> String {
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
        (_, None) if own => {
            format!("waits for {what} on a socket whose other end it has open itself")
        }
        (PeerKind::Remote, None) => format!("waits for {what} from the other host {far}"),
        (_, None) => format!("waits for {what} on {far}"),
    }
}

fn file(wait: &FileWait) -> String {
    match (wait.kind, outside::file_name(wait)) {
        (FileWaitKind::Device, terminal) if terminal.starts_with("the terminal") => {
            format!("waits for {terminal}: somebody must type")
        }
        (_, file) => format!("waits for {file}"),
    }
}
