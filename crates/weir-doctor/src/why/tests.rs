//! The chain of waits, by construction.

use super::*;
use alloc::format;
use alloc::vec;

fn reads(others: &[i32]) -> Cause {
    Cause::Pipe(PipeWait { others: others.to_vec(), ..PipeWait::default() })
}

fn writes(others: &[i32]) -> Cause {
    Cause::Pipe(PipeWait { writes: true, others: others.to_vec(), ..PipeWait::default() })
}

fn waits(children: &[i32]) -> Cause {
    Cause::Child { children: children.to_vec(), looker: false }
}

/// Walks from process 1 through processes with these waits, counted from 1.
fn walked(waits: &[Cause]) -> (Vec<i32>, Option<usize>, bool) {
    let why = chain(waits, 0);
    (why.links.iter().map(|link| link.named.pid).collect(), why.circle, why.cut)
}

/// The same; of these processes, one was left running.
fn chain(waits: &[Cause], left: i32) -> Why {
    let look = |pid: i32| {
        let wait = waits.get(pid as usize - 1)?.clone();
        Some(WhyLink { left: pid == left, ..link(pid, wait) })
    };
    walk(1, look).expect("process 1 is there")
}

/// A process of which no more is known than its wait.
fn link(pid: i32, wait: Cause) -> WhyLink {
    WhyLink {
        named: Named { pid, command: format!("p{pid}") },
        parent: None,
        wait,
        beside: None,
        has_way_out: false,
        share: None,
        threads: Vec::new(),
        still_ns: None,
        left: false,
        tracer: None,
        held_back: None,
        hot: None,
    }
}

const SLEEP: Cause = Cause::Sleep { asked_ns: None };
const THREADS: Cause = Cause::Threads { alone: false, timed: false };

#[test]
fn a_chain_ends_at_who_waits_for_no_process() {
    assert_eq!(walked(&[reads(&[2]), reads(&[3]), SLEEP]), (vec![1, 2, 3], None, false));
    assert_eq!(walked(&[Cause::Computes { cpus: 1.0 }]), (vec![1], None, false));
}

#[test]
fn of_several_the_one_that_works_counts_and_a_shell_that_waits_comes_last() {
    let shell = waits(&[3]);
    let computes = Cause::Computes { cpus: 0.9 };
    assert_eq!(walked(&[reads(&[2, 3]), shell, computes]), (vec![1, 3], None, false));
    assert_eq!(walked(&[reads(&[2, 3]), SLEEP, SLEEP]).0, [1, 2], "the first of equals");
}

#[test]
fn two_that_write_to_each_other_are_a_circle() {
    assert_eq!(walked(&[writes(&[2]), writes(&[1])]), (vec![1, 2], Some(0), false));
    assert_eq!(walked(&[reads(&[2]), writes(&[3]), writes(&[2])]), (vec![1, 2, 3], Some(1), false));
}

/// Two that waited for each other "could not continue", though a thread of one of them only slept.
#[test]
fn a_thread_or_a_time_that_may_end_a_wait_makes_it_no_circle() {
    let look = |pid: i32| {
        let wait = if pid == 1 { reads(&[2]) } else { reads(&[1]) };
        Some(WhyLink { has_way_out: pid == 2, ..link(pid, wait) })
    };
    let why = walk(1, look).expect("process 1 is there");
    assert_eq!((why.links.len(), why.circle), (2, None));
    let beside = reads(&[2]);
    assert!(SLEEP.is_way_out(&beside) && reads(&[3]).is_way_out(&beside));
    let own = Cause::Pipe(PipeWait { own: true, ..PipeWait::default() });
    assert!(![THREADS, own, writes(&[2])].iter().any(|other| other.is_way_out(&beside)));
}

#[test]
fn who_can_end_a_wait_is_no_circle() {
    let computes = Cause::Computes { cpus: 0.9 };
    assert_eq!(walked(&[reads(&[2]), reads(&[1, 3]), computes]), (vec![1, 2, 3], None, false));
    let blocked = reads(&[]);
    assert_eq!(walked(&[reads(&[2]), reads(&[1, 3]), blocked]), (vec![1, 2, 3], None, false));
}

#[test]
fn a_parent_with_another_child_is_no_circle() {
    // `exec 8<>ff; cat ff & other` in a shell: it has the FIFO open, and waits for the other child.
    let other = Cause::Unknown { kernel: None };
    assert_eq!(walked(&[reads(&[2]), waits(&[1, 3]), other]), (vec![1, 2, 3], None, false));
    let nested = waits(&[4]);
    let shells = [reads(&[2]), waits(&[1, 3]), nested, SLEEP];
    assert_eq!(walked(&shells), (vec![1, 2, 3, 4], None, false));
}

#[test]
fn a_parent_of_none_but_who_waits_for_it_is_a_circle() {
    assert_eq!(walked(&[reads(&[2]), waits(&[1])]), (vec![1, 2], Some(0), false));
    // Process 9 has ended, and process 3 is a zombie.
    let gone = Cause::Ended { parent: Some(2) };
    assert_eq!(walked(&[reads(&[2]), waits(&[1, 9, 3]), gone]), (vec![1, 2], Some(0), false));
    let both = [reads(&[2]), waits(&[1, 3]), reads(&[2])];
    assert_eq!(walked(&both), (vec![1, 2, 3], Some(1), false), "both children wait for it");
}

#[test]
fn a_pipe_with_another_holder_is_no_circle() {
    let listens = Cause::Events { of: vec![] };
    assert_eq!(walked(&[reads(&[2]), reads(&[1, 3]), listens]), (vec![1, 2, 3], None, false));
    // The holder that says more leads back, the other does not.
    let holders = [reads(&[2]), reads(&[3, 4]), writes(&[1]), SLEEP];
    assert_eq!(walked(&holders), (vec![1, 2, 4], None, false));
    let all_wait = [reads(&[2]), reads(&[3, 4]), writes(&[1]), writes(&[3])];
    assert_eq!(walked(&all_wait), (vec![1, 2, 3], Some(0), false));
}

#[test]
fn who_waits_for_the_looker_comes_after_a_shell() {
    let looker = Cause::Pipe(PipeWait { looker: true, ..PipeWait::default() });
    let shell = Cause::Child { children: vec![], looker: true };
    assert_eq!(walked(&[reads(&[2, 3]), looker, shell]), (vec![1, 3], None, false));
}

#[test]
fn one_holder_of_a_lock_makes_a_circle() {
    let lock = |holders: &[i32]| Cause::Lock { path: None, holders: holders.to_vec(), own: false };
    assert_eq!(walked(&[lock(&[2]), lock(&[1, 3]), SLEEP]), (vec![1, 2], Some(0), false));
}

#[test]
fn a_circle_is_not_claimed_before_all_were_followed() {
    let around = |count: i32| {
        let all: Vec<i32> = (2..=count).collect();
        let center = core::iter::once(reads(&all));
        walked(&center.chain(all.iter().map(|_| reads(&[1]))).collect::<Vec<_>>())
    };
    assert_eq!(around(20), (vec![1, 2], Some(0), false));
    let (links, circle, cut) = around(200);
    assert_eq!((links.len(), circle, cut), (2, None, true));
}

#[test]
fn a_process_that_has_gone_ends_the_chain() {
    assert_eq!(walked(&[reads(&[9])]), (vec![1], None, false));
    assert!(walk(1, |_| None).is_none());
}

#[test]
fn a_chain_has_an_end() {
    let waits: Vec<Cause> = (2..40).map(|next| reads(&[next])).collect();
    let (links, circle, cut) = walked(&waits);
    assert_eq!((links.len(), circle, cut), (MOST_LINKS, None, true));
}

#[test]
fn a_thread_that_does_something_decides() {
    let waits = vec![THREADS, reads(&[2]), SLEEP];
    assert_eq!(decisive(waits), Some(reads(&[2])));
    // A program that starts another one in a thread waited for that thread only.
    let own = Cause::Pipe(PipeWait { own: true, ..PipeWait::default() });
    assert_eq!(decisive(vec![THREADS, own, SLEEP, self::waits(&[2])]), Some(self::waits(&[2])));
    assert_eq!(decisive(vec![THREADS, THREADS]), Some(THREADS));
    assert_eq!(decisive(vec![]), None);
}

fn socket(kind: PeerKind, pid: i32) -> Cause {
    let peer = Peer { kind, pid: Some(pid), ..Peer::default() };
    Cause::Socket { peer: Box::new(peer), owners: vec![], own: false, more: false, writes: false }
}

/// Of those that have the other end of a socket only the first was followed.
#[test]
fn a_socket_with_another_owner_is_no_circle() {
    let of = |owners: &[i32], more| Cause::Socket {
        peer: Box::new(Peer { kind: PeerKind::Unix, pid: Some(owners[0]), ..Peer::default() }),
        owners: owners.to_vec(),
        own: false,
        more,
        writes: false,
    };
    let two = [of(&[2], false), of(&[1], false)];
    assert_eq!(walked(&two), (vec![1, 2], Some(0), false));
    let three = [of(&[2, 3], false), of(&[1], false), SLEEP];
    assert_eq!(walked(&[&three[..2], &[of(&[1], false)]].concat()).1, Some(0));
    assert_eq!(walked(&[of(&[2], false), of(&[1, 3], false), SLEEP]), (vec![1, 2, 3], None, false));
    assert_eq!(walked(&three), (vec![1, 3], None, false));
    assert!(of(&[2], true).is_way_out(&of(&[2], true)));
}

fn connect(kind: PeerKind) -> Cause {
    let peer = Box::new(Peer { kind, ..Peer::default() });
    Cause::Connect { peer, listeners: vec![2] }
}

#[test]
fn a_wait_that_ends_by_itself_or_by_others_than_are_known_is_a_way_out() {
    let children = vec![2];
    let signal = Cause::Signal { most_ns: None, children: children.clone() };
    let terminal =
        Cause::Terminal { path: String::from("/dev/pts/3"), holders: children, writes: false };
    let timed = Cause::Threads { alone: false, timed: true };
    for wait in [signal, terminal, timed, connect(PeerKind::Local)] {
        assert!(wait.is_way_out(&wait), "{wait:?}");
    }
    let unix = connect(PeerKind::Unix);
    assert!(!unix.is_way_out(&unix), "it waits for ever");
    assert!(!THREADS.is_way_out(&THREADS));
}

#[test]
fn a_listener_waits_for_no_process() {
    assert_eq!(socket(PeerKind::Listening, 7).others(), Vec::<i32>::new());
}

#[test]
fn who_has_both_ends_of_a_socket_does_not_wait_for_itself() {
    assert_eq!(walked(&[socket(PeerKind::Unix, 1)]), (vec![1], None, false));
    let behind = [reads(&[2]), socket(PeerKind::Unix, 2), SLEEP];
    assert_eq!(walked(&behind), (vec![1, 2], None, false));
    assert_eq!(walked(&[socket(PeerKind::Unix, 2), SLEEP]), (vec![1, 2], None, false));
}

#[test]
fn who_was_left_running_keeps_the_end_of_file_away_if_nobody_else_can() {
    let left_open = |first: Cause| chain(&[first, SLEEP, SLEEP], 2).left_open();
    assert_eq!(left_open(reads(&[2])), Some(1));
    assert_eq!(left_open(reads(&[2, 3])), None, "another one has it open too");
    assert_eq!(left_open(writes(&[2])), None);
    let own = Cause::Pipe(PipeWait { others: vec![2], own: true, ..PipeWait::default() });
    assert_eq!(left_open(own), None);
    assert_eq!(chain(&[reads(&[2]), SLEEP], 0).left_open(), None, "it was not left");
}

#[test]
fn who_does_what_it_was_told_is_no_stall() {
    let is_stall = |waits: &[Cause], left: i32| chain(waits, left).is_stall();
    assert!(!is_stall(&[SLEEP], 0), "sleep 60");
    assert!(!is_stall(&[waits(&[2]), reads(&[3]), SLEEP], 0), "sleep 60 | cat");
    assert!(is_stall(&[waits(&[2]), reads(&[3]), SLEEP], 3), "(sleep 60 & echo) | cat");
    assert!(is_stall(&[writes(&[2]), SLEEP], 0), "yes | sleep 60");
    assert!(is_stall(&[writes(&[2]), writes(&[1])], 0), "a circle");
    let computes = Cause::Computes { cpus: 1.0 };
    assert!(!is_stall(&[reads(&[2]), computes.clone()], 0), "it goes on");
    let lock = Cause::Lock { path: None, holders: vec![2], own: false };
    assert!(is_stall(&[lock, computes], 0), "of another job");
    let terminal = Cause::Terminal { path: String::new(), holders: Vec::new(), writes: false };
    assert!(is_stall(&[terminal], 0));
    assert!(!is_stall(&[waits(&[])], 0));
    assert!(!is_stall(&[THREADS], 0), "its threads are not known to be stuck");
}

/// A client waited for a server "which waits for a connection: nobody asks for its service".
#[test]
fn a_server_is_not_said_to_wait_for_clients_by_its_client() {
    let socket = |kind, owners: &[i32]| Cause::Socket {
        peer: Box::new(Peer { kind, ..Peer::default() }),
        owners: owners.to_vec(),
        own: false,
        more: false,
        writes: false,
    };
    let clients = socket(PeerKind::Listening, &[]);
    let asked = |beside: Option<Cause>| {
        let look = |pid: i32| {
            let wait = if pid == 1 { socket(PeerKind::Local, &[2]) } else { clients.clone() };
            Some(WhyLink { beside: beside.clone(), ..link(pid, wait) })
        };
        let of = |pid| walk(pid, look).expect("it is there").links.pop().expect("a link").wait;
        (of(1), of(2))
    };
    assert_eq!(asked(Some(SLEEP)), (SLEEP, clients.clone()), "nobody asked it for the second");
    assert_eq!(asked(None), (Cause::Unanswered, clients.clone()));
    let threads = |other: Cause| beside(vec![clients.clone(), THREADS, other]);
    assert_eq!(threads(SLEEP), Some(SLEEP));
    assert_eq!(threads(THREADS), None);
    let database = socket(PeerKind::Unix, &[3]);
    assert_eq!(decisive(vec![clients.clone(), database.clone()]), Some(database));
}
