//! The sockets for which a group waited, and what happened at their other ends meanwhile.
//!
//! A process of this host at the other end is looked at as a stage is, together with its
//! descendants, and only while somebody waits for it. If it waits for a socket itself, the process
//! behind that one is looked at too. Of other hosts the connection's own figures tell.

use super::classify::{Awaited, Endpoints, Hints};
use super::files::Files;
use super::peers::{Found, accepts, find, holds};
use super::process::{Process, TaskSample, combine};
use super::tcp;
use std::collections::{BTreeMap, HashSet};
use weir_doctor::facts::{OutsideProcess, Peer, PeerKind, TcpWaits};
use weir_doctor::partition::Samples;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, ProcContents, Status, borrow, children, descriptor, identity, tasks, words,
};

/// Most sockets of a group that are tracked; time on others is not counted.
const MOST_SOCKETS: usize = 16;
/// While the wait is no longer than this, an unknown peer is looked up again.
const ASK_AGAIN_NS: u64 = 200_000_000;
/// Most processes behind each other that are followed.
const MOST_BEHIND: usize = 3;
/// Most descendants of a process that are looked at.
const MOST_DESCENDANTS: usize = 64;
/// Interval, in looks, at which descendants are sought.
const SEEK_LOOKS: u64 = 8;

/// The sockets for which a group waited.
#[derive(Debug, Default)]
pub struct Peers {
    known: Vec<KnownPeer>,
    /// How many processes are before these in the chain.
    depth: usize,
}

/// A socket and what is at its other end.
#[derive(Debug)]
struct KnownPeer {
    socket: Descriptor,
    peer: Peer,
    found: Found,
    notes: u64,
    watched: Option<Box<Watched>>,
    /// How often the process that waits has waited.
    waits: Waits,
    /// The segments with data that went either way when it was first looked at, and last.
    segments: Option<[(u64, u64); 2]>,
}

/// How often processes had waited when they were first looked at, and last.
type Waits = BTreeMap<Pid, (u64, u64)>;

/// Notes how often a process has waited.
fn note_waits(waits: &mut Waits, pid: Pid) {
    if let Some(now) = Status::of(pid).and_then(|status| status.waits()) {
        waits.entry(pid).or_insert((now, now)).1 = now;
    }
}

/// Returns how often a process waited meanwhile.
fn waited(waits: &Waits, pid: Pid) -> u64 {
    waits.get(&pid).map_or(0, |(first, last)| last.saturating_sub(*first))
}

impl Peers {
    /// Notes that a task of process `pid` was found waiting for its socket `fd`, to write or to
    /// read, with `weight_ns`. `inside` tells whether a process belongs to the run.
    pub fn note(
        &mut self,
        pid: Pid,
        (fd, writes): (i32, bool),
        weight_ns: u64,
        inside: &dyn Fn(Pid) -> bool,
    ) {
        let Some(socket) = descriptor(pid, fd) else { return };
        let position = self.known.iter().position(|known| known.socket == socket);
        if position.is_none() && self.known.len() >= MOST_SOCKETS {
            return;
        }
        let position = position.unwrap_or_else(|| {
            self.known.push(KnownPeer::new(socket, pid, fd));
            self.known.len() - 1
        });
        let depth = self.depth;
        let known = &mut self.known[position];
        known.notes += 1;
        known.keep_up(pid, fd, inside);
        known.peer.waited_ns += weight_ns;
        if let Some(watched) = &mut known.watched {
            watched.sample(weight_ns, depth, inside);
            note_waits(&mut known.waits, pid);
            known.note_segments(pid, fd);
        } else if known.found.owners.is_empty()
            && known.peer.kind != PeerKind::Listening
            && let Some(look) = borrow(pid, fd).and_then(|socket| tcp::sample(&socket))
        {
            let waits = known.peer.tcp.get_or_insert_with(|| TcpWaits::new(look));
            waits.add(look, writes, weight_ns);
        }
    }

    /// Whether most of its waits were for clients: it is a server.
    pub fn waits_for_clients(&self) -> bool {
        let waited_ns = |listens: bool| {
            let of = self
                .known
                .iter()
                .filter(|known| !listens || known.peer.kind == PeerKind::Listening);
            of.map(|known| known.peer.waited_ns).sum::<u64>()
        };
        waited_ns(true) * 2 > waited_ns(false)
    }

    /// Whether it took a connection, and then mostly waited for one of these processes: its client.
    pub fn waits_for_one_of(&self, clients: &HashSet<Pid>) -> bool {
        let listened = self.known.iter().any(|known| known.peer.kind == PeerKind::Listening);
        let longest = || Peers::longest(std::iter::once(self))?.pid;
        listened && longest().is_some_and(|pid| clients.contains(&pid))
    }

    /// Returns the peer with the longest wait. Sockets with the same peer count as one.
    pub fn longest<'a>(of: impl Iterator<Item = &'a Peers>) -> Option<Peer> {
        let mut merged: Vec<Vec<&KnownPeer>> = Vec::new();
        for known in of.flat_map(|peers| &peers.known) {
            match merged.iter_mut().find(|others| others[0].peer.is_same(&known.peer)) {
                Some(others) => others.push(known),
                None => merged.push(vec![known]),
            }
        }
        let waited_ns = |same: &[&KnownPeer]| same.iter().map(|it| it.peer.waited_ns).sum::<u64>();
        let longest = merged.into_iter().max_by_key(|same| waited_ns(same))?;
        // The figures of a connection are those of the longer wait.
        let one = longest.iter().max_by_key(|known| known.peer.waited_ns)?;
        let process = Watched::record(&longest).map(Box::new);
        Some(Peer { process, waited_ns: waited_ns(&longest), ..one.peer.clone() })
    }
}

impl KnownPeer {
    fn new(socket: Descriptor, pid: Pid, fd: i32) -> KnownPeer {
        let found = find(pid, fd);
        let (peer, waits) = (found.peer.clone(), Waits::new());
        KnownPeer { socket, peer, found, notes: 0, watched: None, waits, segments: None }
    }

    /// Notes the segments of a connection of TCP.
    fn note_segments(&mut self, pid: Pid, fd: i32) {
        if self.peer.kind == PeerKind::Local
            && let Some(look) = borrow(pid, fd).and_then(|socket| tcp::sample(&socket))
        {
            let now = (look.sent_segments, look.came_segments);
            self.segments.get_or_insert([now, now])[1] = now;
        }
    }

    /// Returns how often the process at the other end was asked and answered in about, if that waited
    /// `answered` times meanwhile.
    ///
    /// Where others use the CPU, one of both finds there already what it would have waited for: the other one
    /// waited more. One that sends a stream makes the other wait, and hardly waits itself.
    fn round_trips(&self, answered: u64) -> u64 {
        let asked = self.waits.keys().map(|pid| waited(&self.waits, *pid)).sum::<u64>();
        let (less, more) = (asked.min(answered), asked.max(answered));
        match self.segments {
            Some(_) if less * 10 < more => 0,
            Some([first, last]) => {
                let sent = last.0.saturating_sub(first.0).min(last.1.saturating_sub(first.1));
                more.min(sent)
            }
            // A stream through a unix socket makes its writer wait for room, and a server may
            // wait for its disk several times for each question.
            None if less * 4 < more => 0,
            None => asked,
        }
    }

    /// Looks again for what is at the other end, where it was not known or may have changed: a server hands a
    /// connection on to a child, or had not accepted it yet.
    fn keep_up(&mut self, pid: Pid, fd: i32, inside: &dyn Fn(Pid) -> bool) {
        let unknown = matches!(self.peer.kind, PeerKind::Unknown)
            && self.peer.waited_ns < ASK_AGAIN_NS
            && self.notes > 1;
        let of_this_host = matches!(self.peer.kind, PeerKind::Unix | PeerKind::Local);
        let due = self.notes > 1 && self.notes.is_power_of_two() && of_this_host;
        if due && let Some(inode) = self.found.inode {
            // A process that was just being started had it open until it became its program.
            self.found.owners.retain(|owner| holds(*owner, inode));
            if let Some(watched) = &mut self.watched {
                watched.roots.retain(|root| self.found.owners.contains(root));
            }
        }
        let moved = due && self.found.owners.is_empty();
        if unknown || moved {
            let waited_ns = self.peer.waited_ns;
            let tcp = self.peer.tcp;
            self.found = find(pid, fd);
            self.peer = Peer { waited_ns, tcp, ..self.found.peer.clone() };
            self.watched = None;
        }
        let outside = self.found.owners.iter().all(|owner| !inside(*owner));
        if self.watched.is_none() && outside && !self.found.owners.is_empty() {
            self.watched = Some(Box::new(Watched::new(&self.found.owners)));
        }
    }
}

/// A process outside the run, with its descendants.
#[derive(Debug)]
struct Watched {
    roots: Vec<Pid>,
    members: BTreeMap<Pid, Process>,
    /// Members that have children.
    parents: Vec<Pid>,
    samples: Samples,
    looks: u64,
    /// Names of the processes that were found in the state that counted, and for how long.
    seen: BTreeMap<Pid, (String, u64)>,
    /// What they said of themselves in place of their arguments, and for how long.
    titles: BTreeMap<String, u64>,
    /// How often they have waited.
    waits: Waits,
    peers: Peers,
    files: Files,
}

impl Watched {
    fn new(owners: &[Pid]) -> Watched {
        Watched {
            roots: owners.to_vec(),
            members: BTreeMap::new(),
            parents: Vec::new(),
            samples: Samples::default(),
            looks: 0,
            seen: BTreeMap::new(),
            titles: BTreeMap::new(),
            waits: Waits::new(),
            peers: Peers::default(),
            files: Files::default(),
        }
    }

    /// Looks at the process and its descendants.
    ///
    /// A process that has children waits for them or for its clients, so only what it computes
    /// counts, unless its children show nothing.
    fn sample(&mut self, weight_ns: u64, depth: usize, inside: &dyn Fn(Pid) -> bool) {
        if self.looks.is_multiple_of(SEEK_LOOKS) {
            self.seek(inside);
        }
        self.looks += 1;
        let first = self.looks == 1;
        let mut seen: Vec<(Pid, TaskSample)> = Vec::new();
        for process in self.members.values_mut() {
            let (looks, _) = process.sample(&Endpoints::default(), Hints::default(), true);
            // The first look has no CPU time to compare with.
            let looks =
                looks.into_iter().filter(|look| !look.hidden || look.state != TaskState::Unknown);
            seen.extend(looks.map(|look| (process.record.pid, look)));
        }
        if first {
            return;
        }
        let works = |(pid, look): &&(Pid, TaskSample)| {
            look.state == TaskState::Running || !self.parents.contains(pid)
        };
        let some: Vec<&(Pid, TaskSample)> = seen.iter().filter(works).collect();
        let mut among = if some.is_empty() { seen.iter().collect() } else { some };
        // Where a thread accepts connections, what the others do says more, unless they wait for
        // each other.
        let accepts = |(pid, look): &&(Pid, TaskSample)| match look.awaited {
            Some(Awaited::Socket { fd, alone: true, .. }) => accepts(*pid, fd),
            _ => false,
        };
        let idle = [TaskState::Lock, TaskState::Unknown, TaskState::Stopped];
        if among.iter().any(|it| !idle.contains(&it.1.state) && !accepts(it)) {
            among.retain(|it| !accepts(it));
        }
        let mut strongest = None;
        among.iter().for_each(|(_, look)| combine(&mut strongest, look.found()));
        let Some((state, on_cpu_permille)) = strongest else { return };
        self.samples.add(state, weight_ns, on_cpu_permille);
        let Some((pid, look)) = among.iter().find(|(_, look)| look.state == state) else { return };
        let (name, seen_ns) = self.seen.entry(*pid).or_default();
        // A shell becomes the last of its commands.
        if (name.is_empty() || self.looks.is_multiple_of(SEEK_LOOKS))
            && let Some(identity) = identity(*pid)
        {
            *name = identity.name;
        }
        *seen_ns += weight_ns;
        note_waits(&mut self.waits, *pid);
        if let Some(title) = title(*pid) {
            *self.titles.entry(title).or_default() += weight_ns;
        }
        match look.awaited {
            Some(Awaited::Socket { fd, writes, alone: true }) if depth < MOST_BEHIND => {
                self.peers.depth = depth + 1;
                // Whoever waits for this process is no one that it waits for in turn.
                let roots = &self.roots;
                let known = |other: Pid| inside(other) || roots.contains(&other);
                self.peers.note(*pid, (fd, writes), weight_ns, &known);
            }
            Some(awaited) => self.files.note(*pid, state, awaited, weight_ns),
            None => {}
        }
    }

    /// Finds the descendants and the threads.
    fn seek(&mut self, inside: &dyn Fn(Pid) -> bool) {
        let mut family = self.roots.clone();
        let mut at = 0;
        self.parents.clear();
        while at < family.len() {
            let pid = family[at];
            let children = children(pid).into_iter().filter(|pid| !inside(*pid));
            let children: Vec<Pid> = children.collect();
            if !children.is_empty() {
                self.parents.push(pid);
            }
            let room = MOST_DESCENDANTS.saturating_sub(family.len());
            let new = children.into_iter().filter(|pid| !family.contains(pid));
            let new: Vec<Pid> = new.take(room).collect();
            family.extend(new);
            at += 1;
        }
        self.members.retain(|pid, _| family.contains(pid));
        for pid in family {
            let process = self.members.entry(pid).or_insert_with(|| Process::new(pid, 0));
            tasks(pid).into_iter().take(MOST_DESCENDANTS).for_each(|task| process.add_task(task));
        }
    }

    /// Returns what was seen of the process at the other ends of these sockets.
    fn record(of: &[&KnownPeer]) -> Option<OutsideProcess> {
        let watched = of.iter().filter_map(|known| Some((*known, known.watched.as_deref()?)));
        let (_, one) = watched.clone().max_by_key(|(known, _)| known.peer.waited_ns)?;
        let (pid, (program, _)) = one.seen.iter().max_by_key(|(_, (_, ns))| *ns)?;
        let (mut samples, mut total_ns, mut round_trips) = (Samples::default(), 0, 0);
        for (known, watched) in watched {
            samples.merge(&watched.samples);
            total_ns += watched.seen.values().map(|(_, ns)| *ns).sum::<u64>();
            round_trips += known.round_trips(waited(&watched.waits, *pid));
        }
        let Watched { titles, peers, files, .. } = one;
        Some(OutsideProcess {
            program: program.clone(),
            pid: *pid,
            title: titles.iter().max_by_key(|(_, ns)| **ns).map(|(title, _)| title.clone()),
            times: samples.divide_wall(total_ns),
            samples: samples.count(),
            round_trips,
            peer: Peers::longest([peers].into_iter()).map(Box::new),
            file: files.longest().into_iter().next(),
        })
    }
}

/// Returns what a process says of itself in place of its arguments, as servers do that serve each client by
/// a process: `postgres: joe shop [local] UPDATE waiting`.
fn title(pid: Pid) -> Option<String> {
    const MOST_BYTES: usize = 256;
    let words = words(pid, MOST_BYTES);
    let mut said = words.into_iter().filter(|word| !word.is_empty());
    let title = said.next().filter(|_| said.next().is_none())?;
    title
        .split_once(": ")
        .filter(|(name, _)| !name.contains(['/', ' ']))
        .map(|(_, rest)| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::peers::tests::until;
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    const MS: u64 = 1_000_000;

    fn me() -> Pid {
        std::process::id() as Pid
    }

    /// A process whose standard input is the other end of this socket.
    fn server(script: &str) -> (Child, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        (with_input(script, far), near)
    }

    fn with_input(script: &str, input: UnixStream) -> Child {
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdin(Stdio::from(std::os::fd::OwnedFd::from(input)));
        command.spawn().expect("bash")
    }

    fn noted(near: &UnixStream) -> Peer {
        let mut peers = Peers::default();
        note_often(&mut peers, near);
        Peers::longest([&peers].into_iter()).expect("a peer")
    }

    fn note_often(peers: &mut Peers, near: &UnixStream) {
        for _ in 0..40 {
            peers.note(me(), (near.as_raw_fd(), false), 10 * MS, &|_| false);
            // sleep: what the other process uses in this time is what is looked at.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    #[test]
    fn a_server_that_computes_is_seen_and_named_by_its_child() {
        let (mut server, near) = server("echo up >&0; (while :; do :; done); :");
        (&near).read_exact(&mut [0; 3]).expect("up");
        let peer = noted(&near);
        server.kill().expect("killed");
        server.wait().expect("waited");
        let process = peer.process.expect("looked at");
        assert_eq!(process.program, "bash");
        assert_ne!(process.pid, server.id() as Pid, "its child computes");
        assert!(process.times.busy_ns() > 200 * MS && process.samples >= 30, "{process:?}");
        let (cpu, queue) = (process.times.cpu_ns, process.times.queue_ns);
        assert!(cpu + queue > 200 * MS, "{process:?}");
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(process.pid).expect("an id"),
            rustix::process::Signal::KILL,
        );
    }

    /// What ssh ran was named bash, for the shell that had become it.
    #[test]
    fn a_process_has_the_name_of_what_it_became() {
        let spin = "exec perl -e '1 while 1'";
        let (mut server, near) = server(&format!("echo up >&0; read -r; {spin}"));
        (&near).read_exact(&mut [0; 3]).expect("up");
        let mut peers = Peers::default();
        (0..3).for_each(|_| peers.note(me(), (near.as_raw_fd(), false), 10 * MS, &|_| false));
        assert_eq!(peers.known[0].watched.as_ref().expect("looked at").seen.len(), 1);
        (&near).write_all(b"\n").expect("written");
        let pid = server.id() as Pid;
        until("it is perl", || identity(pid).is_some_and(|identity| identity.name == "perl"));
        note_often(&mut peers, &near);
        server.kill().and_then(|()| server.wait()).expect("ended");
        let peer = Peers::longest([&peers].into_iter()).expect("a peer");
        assert_eq!(peer.process.expect("looked at").program, "perl");
    }

    /// `nc -l | md5sum` was 99 % of a script, for it waited for the `nc` of another line.
    #[test]
    fn one_that_took_a_connection_waits_for_its_client() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).expect("listening");
        let near = UnixStream::connect(&path).expect("connected");
        let mut client = with_input("exec sleep 60", near);
        let (taken, _) = listener.accept().expect("a client");
        let mut peers = Peers::default();
        note_often(&mut peers, &taken);
        let pid = Peers::longest([&peers].into_iter()).and_then(|peer| peer.pid);
        let all: HashSet<Pid> = pid.into_iter().chain([client.id() as Pid]).collect();
        assert!(pid.is_some() && !peers.waits_for_one_of(&all), "it was not seen to listen");
        peers.note(me(), (listener.as_raw_fd(), false), 10 * MS, &|_| false);
        assert!(peers.waits_for_one_of(&all) && !peers.waits_for_clients());
        assert!(!peers.waits_for_one_of(&HashSet::new()), "a client of another run");
        client.kill().expect("killed");
        client.wait().expect("waited");
    }

    #[test]
    fn a_server_that_sleeps_is_asleep() {
        let (mut server, near) = server("exec sleep 60");
        let pid = server.id() as Pid;
        until("it is sleep", || identity(pid).is_some_and(|identity| identity.name == "sleep"));
        let peer = noted(&near);
        server.kill().expect("killed");
        server.wait().expect("waited");
        let process = peer.process.expect("looked at");
        assert_eq!((process.program.as_str(), process.pid), ("sleep", server.id() as Pid));
        assert!(process.times.sleep_ns > 300 * MS, "{process:?}");
    }

    /// What another process had just started was named in place of the server, and for as long as it lived.
    #[test]
    fn who_has_closed_the_socket_is_not_its_server() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let other = "echo up >&0; read -r; exec <&-; while :; do :; done";
        let mut other = with_input(other, far.try_clone().expect("a copy"));
        (&near).read_exact(&mut [0; 3]).expect("up");
        let mut server = with_input("exec sleep 60", far);
        let pid = server.id() as Pid;
        until("it is sleep", || identity(pid).is_some_and(|identity| identity.name == "sleep"));
        let mut peers = Peers::default();
        peers.note(me(), (near.as_raw_fd(), false), 10 * MS, &|_| false);
        assert!(peers.known[0].found.owners.contains(&(other.id() as Pid)));
        (&near).write_all(b"\n").expect("written");
        let inode = peers.known[0].found.inode.expect("known");
        until("it has closed it", || !holds(other.id() as Pid, inode));
        note_often(&mut peers, &near);
        for process in [&mut other, &mut server] {
            process.kill().and_then(|()| process.wait()).expect("ended");
        }
        let peer = Peers::longest([&peers].into_iter()).expect("a peer");
        assert_eq!(peer.process.expect("looked at").pid, pid);
    }

    #[test]
    fn a_process_of_the_run_is_not_outside() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let mut peers = Peers::default();
        (0..4).for_each(|_| peers.note(me(), (near.as_raw_fd(), false), MS, &|_| true));
        let peer = Peers::longest([&peers].into_iter()).expect("a peer");
        assert_eq!((peer.process, peer.waited_ns), (None, 4 * MS));
        drop(far);
        // Nor is its connection: what it does is known.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("known");
        let near = std::net::TcpStream::connect(address).expect("connected");
        let _far = listener.accept().expect("accepted");
        until("its process is known", || {
            let mut peers = Peers::default();
            (0..4).for_each(|_| peers.note(me(), (near.as_raw_fd(), false), MS, &|_| true));
            let peer = Peers::longest([&peers].into_iter()).expect("a peer");
            (peer.kind, peer.pid, peer.tcp) == (PeerKind::Local, Some(me()), None)
        });
    }

    #[test]
    fn sockets_of_one_peer_add_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("s")).expect("a listener");
        let near: Vec<UnixStream> = (0..2)
            .map(|_| UnixStream::connect(directory.path().join("s")).expect("connected"))
            .collect();
        let mut peers = Peers::default();
        for (socket, weight_ns) in near.iter().zip([5, 6]) {
            peers.note(me(), (socket.as_raw_fd(), false), weight_ns, &|_| true);
        }
        let peer = Peers::longest([&peers].into_iter()).expect("a peer");
        assert_eq!((peer.kind, peer.waited_ns, peer.pid), (PeerKind::Unix, 11, Some(me())));
        let (mut served, _) = listener.accept().expect("accepted");
        served.write_all(b"x").expect("written");
        assert_eq!(Peers::longest([].into_iter()), None);
    }

    /// A server's process for one client was told by its program only.
    #[test]
    fn what_a_process_says_of_itself_is_its_title() {
        let mut perl = Command::new("perl");
        perl.args(["-e", "$0 = 'postgres: joe shop LOCK waiting'; sleep 100"]);
        let Ok(mut child) = perl.stdout(Stdio::piped()).spawn() else {
            eprintln!("SKIPPED: perl is not installed");
            return;
        };
        let pid = child.id() as Pid;
        until("it has a title", || title(pid).is_some());
        let found = title(pid);
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert_eq!(found.as_deref(), Some("joe shop LOCK waiting"));
        assert_eq!(title(std::process::id() as Pid), None);
    }
}
