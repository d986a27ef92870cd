//! Options of `weir net relay`.

use clap::Args;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::{duration, whole};
use weir_net::relay::{RelayEnd, Share};

#[derive(Debug, Args)]
#[command(
    override_usage = "weir net relay [OPTIONS] --left NETNS:DEVICE:ADDRESS/BITS \
                      --right NETNS:DEVICE:ADDRESS/BITS",
    after_help = RELAY_EXAMPLE,
    after_long_help = RELAY_MANUAL,
)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct RelayOptions {
    /// One end: network namespace (a name from ip netns, a process id, a path, or nothing for this
    /// one), name of the TUN device to create there, address of the kernel's side of it
    #[arg(long, value_name = "END", value_parser = place)]
    pub left: RelayEnd,

    /// The other end
    #[arg(long, value_name = "END", value_parser = place)]
    pub right: RelayEnd,

    /// Share of packets to lose
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub loss: Share,

    /// Share of packets to deliver twice
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub duplicate: Share,

    /// Share of packets in which to invert one bit, anywhere in the packet
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub corrupt: Share,

    /// Share of packets to hold back until others have overtaken them, or for 100 ms
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub reorder: Share,

    /// Number of packets that overtake one that is held back
    #[arg(long, value_name = "N", default_value = "3",
          value_parser = whole(1..=u32::MAX))]
    pub behind: u32,

    /// How long each packet takes, such as 5ms; with a range, such as 1ms-5ms, a random time for
    /// each, so that packets overtake each other
    #[arg(long, value_name = "TIME[-TIME]", default_value = "0", value_parser = delay)]
    pub delay: (Duration, Duration),

    /// Maximum number of packets waiting in each direction; more are dropped and counted
    #[arg(long, value_name = "N", default_value = "1000",
          value_parser = whole(1_u32..=1_000_000))]
    pub queue: u32,

    /// Longest packet of both devices
    #[arg(long, value_name = "BYTES", default_value = "1500",
          value_parser = whole(68..=u16::MAX))]
    pub mtu: u16,

    /// Seed of the random choices: same seed and packets, same result [default: from the clock]
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,

    #[command(flatten)]
    pub json: JsonOption,
}

const JSON: &str = "\
Write the counts as JSON (schema weir.net.relay/1) to FILE; - is standard output";

const RELAY_EXAMPLE: &str = "\
Example:
  ip netns add a; ip netns add b
  weir net relay --left a:rel0:10.8.0.1/24 --right b:rel0:10.8.0.2/24 --loss 5% --seed 7 &
  ip netns exec a ping -c 100 10.8.0.2";

const RELAY_MANUAL: &str = "\
Packets that the kernel sends to one of the two devices come out of the other, impaired as asked,
each direction independently. Each rate is a share of packets. The two copies of a doubled packet
are corrupted, held back and delayed independently. The time at which a packet leaves is exact to
about 0.1 ms. Kernels with netem do the same (tc qdisc add dev DEVICE root netem); many are built
without it.

The relay ends on an interrupt (Ctrl-C, kill): it removes the devices, prints how many packets it
impaired and how, and exits with 0. Creating the devices needs CAP_NET_ADMIN (root). The namespace
of a process is /proc/PID/ns/net.

  taken       packets that the kernel sent in this direction
  lost        packets that were lost
  duplicated  packets that were doubled
  corrupted   copies with one bit inverted
  held back   copies held back to be overtaken
  overflowed  copies dropped because too many were waiting (--queue)
  delivered   copies that left
  refused     of those delivered, copies the kernel did not accept: no longer IP, or device down

Exit status: 0; 1 if something failed; 2 for wrong usage.";

/// `NETNS:DEVICE:ADDRESS/BITS`.
fn place(text: &str) -> Result<RelayEnd, &'static str> {
    const WRONG: &str = "not an end; write NETNS:DEVICE:ADDRESS/BITS, such as a:rel0:10.8.0.1/24";
    let mut parts = text.rsplitn(3, ':');
    let (net, device, namespace) = (parts.next(), parts.next(), parts.next());
    let (Some(net), Some(device), Some(namespace)) = (net, device, namespace) else {
        return Err(WRONG);
    };
    let (address, bits) = net.split_once('/').ok_or(WRONG)?;
    let address: Ipv4Addr = address.parse().map_err(|_| WRONG)?;
    let prefix_bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or(WRONG)?;
    if device.is_empty() || device.len() > weir_net::sys::tun::MOST_NAME_BYTES {
        return Err("not a device name; write 1 to 15 characters");
    }
    Ok(RelayEnd {
        namespace: namespace_path(namespace),
        device: device.into(),
        address,
        prefix_bits,
    })
}

fn namespace_path(text: &str) -> Option<PathBuf> {
    if text.is_empty() || text.contains('/') {
        return (!text.is_empty()).then(|| PathBuf::from(text));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(PathBuf::from(format!("/proc/{text}/ns/net")));
    }
    Some(PathBuf::from("/run/netns").join(text))
}

/// `5ms`, or `1ms-5ms`.
fn delay(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (duration(least)?, duration(most)?);
    if most < least {
        return Err(String::from("the longest time is shorter than the shortest"));
    }
    if most > Duration::from_secs(3600) {
        return Err(String::from("longer than an hour"));
    }
    Ok((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let of = |text| place(text).map(|place| (place.namespace, place.device, place.prefix_bits));
        let named = |path| Some(PathBuf::from(path));
        assert_eq!(of("a:r:10.8.0.1/24"), Ok((named("/run/netns/a"), "r".into(), 24)));
        assert_eq!(of("17:r:1.2.3.4/0"), Ok((named("/proc/17/ns/net"), "r".into(), 0)));
        assert_eq!(of("/a:b/n:r:1.2.3.4/32"), Ok((named("/a:b/n"), "r".into(), 32)));
        assert_eq!(of(":r:1.2.3.4/8"), Ok((None, "r".into(), 8)));
        for wrong in ["", "r:1.2.3.4/8", "a:r:1.2.3.4", "a:r:1.2.3/8", "a:r:1.2.3.4/33", "a:r:"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        for wrong in ["a::1.2.3.4/8", "a:sixteen-letters-:1.2.3.4/8", "a:r:1.2.3.4/-1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn delays() {
        let of = |text| delay(text).map(|(a, b)| (a.as_micros(), b.as_micros()));
        assert_eq!([of("1ms-5ms"), of("5ms")], [Ok((1000, 5000)), Ok((5000, 5000))]);
        assert_eq!([of("0"), of("50us-1ms")], [Ok((0, 0)), Ok((50, 1000))]);
        for wrong in ["", "-", "5ms-1ms", "-5ms", "1ms-", "1ms-2ms-3ms", "2h"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
