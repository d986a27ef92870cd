//! `weir net relay`: passes packets between two devices, impaired as asked.

use super::asked;
use crate::args::RelayOptions;
use crate::failed;
use rustix::fd::AsFd;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use weir_command::fault::{Fault, print_message};
use weir_command::output::{Outlet, aligned, trimmed};
use weir_command::signals::stop_pipe;
use weir_command::units::count;
use weir_net::relay::{DirectionCounts, Impairments, Relay, RelayEnd};

pub fn relay(options: &RelayOptions) -> Result<ExitCode, Fault> {
    let mut outlet = Outlet::open(&options.json)?;
    let stop = stop_pipe()?;
    let seed = options.seed.unwrap_or_else(seed_of_the_clock);
    let settings = settings(options, seed);
    let mut relay =
        Relay::open(&options.left, &options.right, options.mtu, settings).map_err(asked)?;
    print_message(&format!("relay is up: {} and {}", end(&options.left), end(&options.right)));
    let ran = relay.run(stop.as_fd());
    let counts = relay.counts();
    let [to_right, to_left] = &counts;
    let body = || json!({"seed": seed, "to_right": to_right, "to_left": to_left});
    outlet.write_report("weir.net.relay/1", body, || text(seed, &counts))?;
    ran.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(options: &RelayOptions, seed: u64) -> Impairments {
    // Fits: the command line allows at most an hour.
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let (least, most) = options.delay;
    let most_packets = options.queue as usize;
    Impairments {
        loss: options.loss,
        duplicate: options.duplicate,
        corrupt: options.corrupt,
        reorder: options.reorder,
        behind: options.behind,
        least_delay_ns: nanoseconds(least),
        most_delay_ns: nanoseconds(most),
        most_packets,
        most_bytes: most_packets.saturating_mul(usize::from(options.mtu)),
        seed,
        ..Impairments::default()
    }
}

/// A seed from the clock. It is printed, so that it can be used again.
fn seed_of_the_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as u64)
}

fn end(place: &RelayEnd) -> String {
    format!("{} {}/{}", place.device, place.address, place.prefix_bits)
}

fn text(seed: u64, counts: &[DirectionCounts; 2]) -> String {
    let mut table = aligned(["", "to the right", "to the left"], [1, 2]);
    let figure =
        |of: fn(&DirectionCounts) -> u64| counts.each_ref().map(|counts| count(of(counts)));
    for (name, [right, left]) in [
        ("taken", figure(|counts| counts.impairment.taken)),
        ("lost", figure(|counts| counts.impairment.lost)),
        ("duplicated", figure(|counts| counts.impairment.duplicated)),
        ("corrupted", figure(|counts| counts.impairment.corrupted)),
        ("held back", figure(|counts| counts.impairment.held_back)),
        ("overflowed", figure(|counts| counts.impairment.overflowed)),
        ("delivered", figure(|counts| counts.impairment.delivered)),
        ("refused", figure(|counts| counts.refused)),
    ] {
        table.add_row([name.to_owned(), right, left]);
    }
    format!("{}\nseed {seed}\n", trimmed(&table))
}
