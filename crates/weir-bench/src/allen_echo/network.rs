//! A network namespace for all cases of a cell: nothing of the host's network is touched, and all
//! of it is gone with the processes, however they end. Each case has a subnet of its own in it.

use std::cell::Cell;
use std::net::Ipv4Addr;
use weir_measure::bench::case::CaseError;
use weir_sys::{namespace, tun};

/// Largest packet of the devices: that of Ethernet.
pub const MTU: u16 = 1_500;
pub const PREFIX_BITS: u8 = 24;

thread_local! {
    /// The next subnet, in a process that has a namespace of its own.
    static NEXT: Cell<Option<u8>> = const { Cell::new(None) };
}

/// Addresses and the name of a device that no other case of this process has.
#[derive(Clone, Copy, Debug)]
pub struct Subnet {
    number: u8,
}

impl Subnet {
    /// The next; with the first, this process moves into a namespace of its own.
    pub fn new() -> Result<Subnet, CaseError> {
        let number = match NEXT.get() {
            Some(number) => number,
            None => {
                enter()?;
                0
            }
        };
        let next = number.checked_add(1).ok_or_else(|| CaseError::failed("no subnet is left"))?;
        NEXT.set(Some(next));
        Ok(Subnet { number })
    }

    /// The kernel's address.
    pub fn here(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 1)
    }

    /// The address that is asked.
    pub fn there(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 2)
    }

    /// Name of the device on this side.
    pub fn device(self) -> String {
        format!("weir{}", self.number)
    }

    /// Name of the device on the other side, where there is one.
    pub fn far_device(self) -> String {
        format!("far{}", self.number)
    }
}

/// Moves this process into a namespace of its own.
fn enter() -> Result<(), CaseError> {
    alone()?;
    tun::switch_on("lo")?;
    // No neighbour is looked for on a device that comes up. Without IPv6 there is no such file.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let range = "/proc/sys/net/ipv4/ping_group_range";
    std::fs::write(range, "0 2147483647")
        .map_err(|error| CaseError::left_out(format!("cannot open {range} to all users: {error}")))
}

/// A namespace with nothing but a loopback device that is down.
pub fn alone() -> Result<(), CaseError> {
    namespace::new_network().map_err(|error| {
        CaseError::left_out(format!("cannot make a network namespace: {error} (root can)"))
    })
}
