//! `joy-switch`: a context switch, by what wakes the other process.
//!
//! Kashtan compared UNIX with VMS by two processes that wake each other in turn, once through pipes
//! and once through signals; Joy then divided the switch into phases. Here a case is half of a
//! round trip: one wake-up, one sleep and the switch between them. The cost of the mechanism
//! without a switch is measured as well (to self); the difference is the switch alone.

mod locks;
mod queue;
mod trace;

use crate::limits::futex_round_trips;
use crate::sys::shared::LINE_BYTES;
use crate::tools::background::endless;
use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::own::{ChannelSide, PipeSettings, trouble};
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::hint::black_box;
use weir::{Flags, Waiting};
use weir_measure::sys::fork::Child;
use weir_measure::sys::signals;

const WAKE: i32 = 10; // SIGUSR1

pub fn suite() -> Suite {
    Suite {
        name: "joy-switch",
        about: "How long it takes to switch to another process: by pipe, eventfd, futex, signal, weir.",
        source: "Kashtan 1980 and W. Joy, March 1980; rings as McVoy and Staelin 1996",
        groups: vec![
            pairs(),
            rings(),
            queue::choices(),
            queue::kernels(),
            trace::group_of_phases(),
        ],
    }
}

fn two_way(mechanism: &str) -> Params {
    moving(mechanism, "two-way")
}

fn to_self(mechanism: &str) -> Params {
    Params { direction: Some("self".into()), ..two_way(mechanism) }
}

fn pairs() -> Group {
    let switch = Some(Perspective { of: Activity::Switches, per_operation: 1.0 });
    let pair = |name: &str, mechanism: &'static str, make: fn(&Site) -> MadeWork| Case {
        perspective: switch,
        normalise: Normalise::OnOneCpu,
        ..case(name, two_way(mechanism), Measure::TIME, make)
    };
    let cases = vec![
        pair("switch by pipe", "kernel-pipe", by_pipe),
        pair("switch by eventfd", "eventfd", by_eventfd),
        pair("switch by futex", "futex", futex_round_trips),
        pair("switch by kill", "kill", by_kill),
        pair("switch by weir pipe", "weir-pipe", by_weir),
        pair("switch by weir port", "weir-port", by_port),
        pair("switch by weir flags", "weir-flags", by_flags),
        case("weir flag set and cleared", to_self("weir-flags"), Measure::TIME, |_| flag_call()),
        case("pipe to self, 1 byte", to_self("kernel-pipe"), Measure::TIME, |_| pipe_to_self()),
        locks::case_of_locks(),
    ];
    let alone = Derived {
        perspective: switch,
        ..difference(
            "switch by pipe less the pipe",
            Params { operation: Some("switch".into()), ..two_way("kernel-pipe") },
            "switch by pipe",
            "pipe to self, 1 byte",
        )
    };
    Group {
        derived: vec![alone],
        baseline: Some("switch by pipe".into()),
        standard: vec![Placement::SameCpu, Placement::OtherCpu, Placement::OtherCpuAwake],
        ..group("pairs", Sides::Two, cases)
    }
}

fn by_pipe(site: &Site) -> MadeWork {
    by_channel(site, Mechanism::Pipe(0))
}

/// weir's pipe with ends that sleep at once: spinning would not be a switch.
fn by_weir(site: &Site) -> MadeWork {
    by_channel(
        site,
        Mechanism::WeirPipe(PipeSettings { waiting: Waiting::Sleep, ..PipeSettings::DEFAULT }),
    )
}

/// weir's port, one each way, with ends that sleep at once.
fn by_port(site: &Site) -> MadeWork {
    by_channel(site, Mechanism::WeirPort(Waiting::Sleep))
}

fn by_channel(site: &Site, mechanism: Mechanism) -> MadeWork {
    let (there, back, peer) = echo::<1>(site, mechanism)?;
    let mut byte = [7];
    round_trips(peer, move || {
        there.send(&byte)?;
        back.receive(&mut byte)?;
        there.settled();
        back.settled();
        Ok(())
    })
}

/// A channel each way, and a peer that sends each message back.
fn echo<const BYTES: usize>(
    site: &Site,
    mechanism: Mechanism,
) -> Result<(BenchChannel, BenchChannel, PeerProcess), CaseError> {
    let there = BenchChannel::new(mechanism, BYTES)?;
    let back = BenchChannel::new(mechanism, BYTES)?;
    let peer = PeerProcess::start(site, |control| {
        there.only(ChannelSide::Receives);
        back.only(ChannelSide::Sends);
        let mut bytes = [0; BYTES];
        control.serve(|| {
            there.receive(&mut bytes)?;
            back.send(&bytes)
        })
    })?;
    there.only(ChannelSide::Sends);
    back.only(ChannelSide::Receives);
    Ok((there, back, peer))
}

fn pipe_to_self() -> MadeWork {
    let channel = BenchChannel::new(Mechanism::Pipe(0), 1)?;
    let mut byte = [7];
    try_repeat(move || {
        channel.send(&byte)?;
        channel.receive(&mut byte)
    })
}

fn by_eventfd(site: &Site) -> MadeWork {
    let (there, back) = (eventfd(0, EventfdFlags::empty())?, eventfd(0, EventfdFlags::empty())?);
    let peer = PeerProcess::start(site, |control| {
        control.serve(|| {
            take(&there)?;
            give(&back)
        })
    })?;
    round_trips(peer, move || {
        give(&there)?;
        take(&back)
    })
}

fn give(event: &OwnedFd) -> Result<(), CaseError> {
    rustix::io::write(event, &1_u64.to_ne_bytes())?;
    Ok(())
}

fn take(event: &OwnedFd) -> Result<(), CaseError> {
    let mut count = [0; 8];
    rustix::io::read(event, &mut count)?;
    if u64::from_ne_bytes(count) == 1 {
        Ok(())
    } else {
        Err(CaseError::failed("an event was lost or duplicated"))
    }
}

const THERE: u64 = 1;
const BACK: u64 = 2;

/// Two flags of one cluster, with waiters that sleep at once: spinning would not be a switch.
fn by_flags(site: &Site) -> MadeWork {
    let flags = Flags::shared().map_err(trouble)?.waiting(Waiting::Sleep);
    let peer = PeerProcess::start(site, |control| {
        control.serve(|| {
            take_flag(&flags, THERE)?;
            flags.set(BACK);
            Ok(())
        })
    })?;
    round_trips(peer, move || {
        flags.set(THERE);
        take_flag(&flags, BACK)
    })
}

/// Sets and clears a flag that nobody waits for: VMS had a call for each.
fn flag_call() -> MadeWork {
    let flags = Flags::shared().map_err(trouble)?;
    try_repeat(move || match (flags.set(THERE), flags.clear(THERE)) {
        (0, THERE) => Ok(()),
        _ => Err(CaseError::failed("a flag was in the wrong state")),
    })
}

fn take_flag(flags: &Flags, flag: u64) -> Result<(), CaseError> {
    match flags.wait_and_clear(flag) {
        Ok(taken) if taken == flag => Ok(()),
        Ok(_) => Err(CaseError::failed("the wrong flag was taken")),
        Err(error) => Err(trouble(error)),
    }
}

/// Both sides block signals and wait for them. None is lost, since each is answered before the next
/// is sent.
fn by_kill(site: &Site) -> MadeWork {
    signals::block(WAKE)?;
    let parent = std::process::id() as weir_sys::Pid;
    let peer = PeerProcess::start(site, |control| {
        control.serve(|| {
            signals::wait_for(WAKE)?;
            Ok(signals::send(parent, WAKE)?)
        })
    })?;
    let other = peer.pid();
    round_trips(peer, move || {
        signals::send(other, WAKE)?;
        Ok(signals::wait_for(WAKE)?)
    })
}

/// A token circulates through pipes; each process touches its working set when it has the token.
fn rings() -> Group {
    let mut cases = Vec::new();
    let mut derived = Vec::new();
    let params = |parties: u64, bytes: u64| Params {
        parties: Some(parties),
        working_set_bytes: Some(bytes),
        ..two_way("kernel-pipe")
    };
    for bytes in [0, 16 << 10, 64 << 10] {
        let alone = format!("self, {} touched", size(bytes));
        let make = move |_: &Site| touching_self(bytes as usize);
        cases.push(Case {
            standard: false,
            ..case(alone.clone(), params(1, bytes), Measure::TIME, make)
        });
        for parties in [2, 8, 16] {
            let name = format!("ring of {parties}, {} touched", size(bytes));
            let make = move |site: &Site| ring(site, parties as usize, bytes as usize);
            let hop = case(name.clone(), params(parties, bytes), Measure::TIME, make);
            cases.push(Case { standard: false, normalise: Normalise::OnOneCpu, ..hop });
            derived.push(Derived {
                standard: false,
                perspective: Some(Perspective { of: Activity::Switches, per_operation: 1.0 }),
                ..difference(
                    &format!("switch in a {name}"),
                    Params { operation: Some("switch".into()), ..params(parties, bytes) },
                    &name,
                    &alone,
                )
            });
        }
    }
    Group { derived, ..group("rings", Sides::Two, cases) }
}

/// Reads and writes every line of a working set.
fn touch(set: &mut [u8]) {
    for line in set.chunks_exact_mut(LINE_BYTES) {
        line[0] = black_box(line[0].wrapping_add(1));
    }
}

fn touching_self(bytes: usize) -> MadeWork {
    let channel = BenchChannel::new(Mechanism::Pipe(0), 1)?;
    let (mut set, mut byte) = (vec![0; bytes], [7]);
    try_repeat(move || {
        channel.send(&byte)?;
        channel.receive(&mut byte)?;
        touch(&mut set);
        Ok(())
    })
}

/// This process is one of the ring. The others are children, on the two CPUs in turn.
fn ring(site: &Site, parties: usize, bytes: usize) -> MadeWork {
    let links: Vec<BenchChannel> =
        (0..parties).map(|_| BenchChannel::new(Mechanism::Pipe(0), 1)).collect::<Result<_, _>>()?;
    let mut children: Vec<Child> = Vec::new();
    for index in 1..parties {
        let (from, to) = (&links[index - 1], &links[index]);
        let go = || if index % 2 == 1 { site.go_there() } else { site.go_here() };
        let (mut set, mut byte) = (vec![0; bytes], [0]);
        children.push(endless(go, || {
            from.receive(&mut byte)?;
            touch(&mut set);
            to.send(&byte)
        })?);
    }
    let (mut set, mut token) = (vec![0; bytes], [1]);
    work(move |count| {
        let _alive = &children;
        let elapsed = timed(count, || {
            links[0].send(&token)?;
            links[parties - 1].receive(&mut token)?;
            touch(&mut set);
            Ok(())
        })?;
        Ok(Batch::time(elapsed, count * parties as u64))
    })
}
