//! A network namespace for all cases of a cell. It leaves the host's network alone and vanishes
//! with the processes, however they end. Each case has its own subnet in it.

use crate::engine::case::CaseError;
use std::cell::Cell;
use std::net::Ipv4Addr;
use weir_net::sys::tun;
use weir_sys::namespace;

/// Largest packet of the devices, as on Ethernet.
pub const MTU: u16 = 1_500;
pub const PREFIX_BITS: u8 = 24;

thread_local! {
    /// The number of the next subnet, if this process has its own namespace.
    static NEXT: Cell<Option<u8>> = const { Cell::new(None) };
}

/// The addresses and device names of one case.
#[derive(Clone, Copy, Debug)]
pub struct Subnet {
    number: u8,
}

impl Subnet {
    /// Takes the next subnet. With the first one, this process moves into its own namespace.
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

    pub fn here(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 1)
    }

    /// Returns the address of the host that is asked.
    pub fn there(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 2)
    }

    /// Returns the name of the device on this side.
    pub fn device(self) -> String {
        format!("weir{}", self.number)
    }

    /// Returns the name of the device on the other side, where there is one.
    pub fn far_device(self) -> String {
        format!("far{}", self.number)
    }
}

/// Moves this process into its own namespace.
fn enter() -> Result<(), CaseError> {
    alone()?;
    tun::switch_on("lo")?;
    // Keeps devices from neighbour discovery when they come up. Without IPv6 there is no such file.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let range = "/proc/sys/net/ipv4/ping_group_range";
    std::fs::write(range, "0 2147483647")
        .map_err(|error| CaseError::left_out(format!("cannot open {range} to all users: {error}")))
}

/// Enters a namespace that has only a loopback device, which is down.
pub fn alone() -> Result<(), CaseError> {
    namespace::new_network().map_err(|error| {
        CaseError::left_out(format!("cannot make a network namespace: {error} (root can)"))
    })
}
