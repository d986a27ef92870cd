//! Sentences on what a stage waited for outside the run.

use super::part_word;
use crate::units::words::{percent, short_time, stage};
use weir_doctor::facts::{Peer, Run, TcpWaits};
use weir_doctor::outside::{Limit, limit};
use weir_doctor::verdict::BusyPart;

/// Who held up a stage that waited for a socket most of the time, and why; `None` where only the
/// name of the other end is known. `share`: of the run, for which the stage waited.
pub fn held_up(run: &Run, position: usize, share: f64) -> Option<String> {
    let of = &run.stages[position];
    let peer = of.peer.as_ref()?;
    let name = stage(position, &of.label);
    let why = limit(peer)?;
    Some(match why {
        Limit::Process(process, _) => {
            let via = match (&peer.program, peer.pid) {
                (Some(program), Some(pid)) if pid != process.pid => {
                    format!(" through {program} {pid}")
                }
                _ => String::new(),
            };
            let (program, pid) = (&process.program, process.pid);
            let does = does(run, peer, &why).unwrap_or_default();
            format!(
                "held up by process {program} {pid}, outside the pipeline: {does} of the time; \
                 {name} waited for it{via}"
            )
        }
        Limit::OwnBuffer => format!(
            "held up by {name}: waiting for {peer} {}: {}",
            percent(share),
            connection(peer, &why)
        ),
        Limit::Loss(_) | Limit::Network => format!(
            "held up by the network to {peer}: {name} waited for it {} of the time: {}",
            percent(share),
            connection(peer, &why)
        ),
        Limit::FarWindow | Limit::FarEnd => format!(
            "held up by the far end, {peer}: {name} waited for it {} of the time: {}",
            percent(share),
            connection(peer, &why)
        ),
        Limit::Either => format!(
            "held up by {peer} or the network to it: {name} waited {} of the time: {}",
            percent(share),
            connection(peer, &why)
        ),
    })
}

/// Returns what was found out about the peer of a socket, in a clause. `None`: nothing was.
pub fn finding(run: &Run, peer: &Peer) -> Option<String> {
    let why = limit(peer)?;
    match &why {
        Limit::Process(process, _) => {
            let does = does(run, peer, &why)?;
            Some(format!("process {} {}: {does} of the time", process.program, process.pid))
        }
        _ => Some(connection(peer, &why)),
    }
}

/// Returns what a process did while the stage waited: `on CPU 93 %, waiting for the disk 5 %`.
fn does(run: &Run, peer: &Peer, why: &Limit) -> Option<String> {
    const WORTH: f64 = 0.05;
    let Limit::Process(process, parts) = why else { return None };
    let said = parts.iter().enumerate().filter_map(|(at, (part, ns))| {
        // No process is shown with more time than the stage waited.
        let share = run.share((*ns).min(peer.waited_ns));
        let what = match (part, &process.file) {
            (BusyPart::Disk | BusyPart::File | BusyPart::Device, Some(file)) => {
                format!("waiting for {file}")
            }
            (BusyPart::Socket, _) => match &process.peer {
                Some(next) => format!("waiting for {next}"),
                None => String::from("waiting for a socket"),
            },
            _ => String::from(part_word(*part)),
        };
        (at == 0 || share >= WORTH).then(|| format!("{what} {}", percent(share)))
    });
    Some(said.collect::<Vec<_>>().join(", "))
}

/// Returns what a connection showed.
fn connection(peer: &Peer, why: &Limit) -> String {
    let tcp = peer.tcp.unwrap_or_default();
    let trip = short_time(tcp.last.rtt_ns.max(tcp.last.min_rtt_ns));
    match why {
        Limit::Loss(Some(share)) => {
            format!("{} of the segments were sent again (round trip {trip})", percent(*share))
        }
        Limit::Loss(None) => format!("data came out of order, lost on the way (round trip {trip})"),
        Limit::Network if tcp.write_ns > tcp.read_ns => {
            format!("what was written was still under way (round trip {trip})")
        }
        Limit::Network if tcp.unanswered_ns >= tcp.queued_ns => {
            format!("what was sent had not been answered yet (round trip {trip})")
        }
        Limit::Network => {
            let queue = short_time(tcp.last.receiver_rtt_ns);
            format!("data stood in a queue on the way (round trip {trip}, with the queue {queue})")
        }
        Limit::FarWindow => {
            format!("its window was full in {} of the writes' time", percent(window_share(&tcp)))
        }
        Limit::FarEnd => String::from("it sent nothing, and nothing was missing"),
        Limit::OwnBuffer => {
            format!("its own socket buffer is too small for a round trip of {trip}")
        }
        Limit::Either => String::from("data came in, without loss"),
        Limit::Process(..) => String::new(),
    }
}

fn window_share(tcp: &TcpWaits) -> f64 {
    let busy = tcp.last.busy_ns.saturating_sub(tcp.first.busy_ns).max(1);
    tcp.last.far_window_ns.saturating_sub(tcp.first.far_window_ns) as f64 / busy as f64
}
