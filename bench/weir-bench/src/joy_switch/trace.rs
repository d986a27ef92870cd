//! The context switch by phase, from the kernel's tracepoints, in a private tracing instance.
//!
//! Tracing costs more than what it times: an event takes about as long as a phase. So the same
//! round trips are timed with and without tracing, and the difference divided by the number of
//! events is the cost of one event. Each phase is stated less one event, and a phase shorter than
//! one event is shown as "below" it. Tracing also costs time outside of the events, because the
//! calls take the kernel's slow path. That time falls into the phases, so they add up to more than
//! a switch takes: read them as shares.

mod events;
mod instance;

use super::echo;
use crate::engine::estimate::median;
use crate::engine::host::counter_hz;
use crate::tools::channel::Mechanism;
use crate::tools::prelude::*;
use events::{PHASES, phases};
use instance::TraceInstance;

/// Round trips of a batch; their events fit the buffer.
const TRIPS: u64 = 200;
const EVENT: Measure = Measure::new("one event", Unit::Ns);

pub fn group_of_phases() -> Group {
    let mut measures: Vec<Measure> =
        PHASES.iter().map(|phase| Measure::new(phase, Unit::Ns)).collect();
    measures.push(EVENT);
    let params = Params {
        operation: Some("phase".into()),
        chunk_bytes: Some(4),
        ..moving("kernel-pipe", "two-way")
    };
    let traced = Case {
        resolution: Some(measures.len() - 1),
        measures,
        size: BatchSize::Count(TRIPS),
        standard: false,
        normalise: Normalise::Never,
        weight: 2.0,
        ..case("traced switch", params, Measure::TIME, traced)
    };
    let made = group("tracepoints", Sides::Two, vec![traced]);
    Group { twin: false, processes: 12, standard: vec![Placement::SameCpu], ..made }
}

fn traced(site: &Site) -> MadeWork {
    let hz = counter_hz();
    if hz == 0 {
        return Err(CaseError::left_out("this CPU has no time-stamp counter for traces"));
    }
    let (there, back, mut peer) = echo::<4>(site, Mechanism::Pipe(0))?;
    let instance = TraceInstance::new(site, &[std::process::id(), peer.pid() as u32])?;
    let mut bytes = [7; 4];
    work(move |count| {
        let mut trips = || -> Result<f64, CaseError> {
            peer.more(count);
            let elapsed = timed(count, || {
                there.send(&bytes)?;
                back.receive(&mut bytes)
            })?;
            peer.wait()?;
            Ok(elapsed)
        };
        let plain = trips()?;
        instance.start()?;
        let with = trips();
        let text = instance.stop()?;
        let with = with?;
        let seen = phases(&text);
        let ns = |ticks: f64| ticks * 1e9 / hz as f64;
        let event = (with - plain) / seen.events.max(1) as f64;
        let mut values: Vec<f64> =
            seen.ticks.iter().map(|phase| ns(median(phase)) - event).collect();
        values.push(event);
        if values.iter().any(|value| !value.is_finite()) {
            return Err(CaseError::left_out("the trace did not hold the events of a switch"));
        }
        Ok(Batch { elapsed_ns: plain + with, values })
    })
}
