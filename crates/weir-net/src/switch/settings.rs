//! What a switch is to be, and whether it can be that.

use crate::error::{Error, ErrorKind, Result};
use crate::icmp;
use crate::net::Net;
use crate::reassembly::Limits;
use rustix::io::Errno;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use weir_sys::tun::Tun;

/// What a switch is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the device.
    pub device: String,
    /// Our address.
    pub address: Ipv4Addr,
    /// The kernel's address on the device.
    pub peer: Ipv4Addr,
    /// Bits of the net's number.
    pub prefix_bits: u8,
    /// Longest packet of the device, in bytes: 68 to 65,535.
    pub mtu: u16,
    /// The gateway to other nets, if there is one.
    pub gateway: Option<Ipv4Addr>,
    /// Ask for the device's header before each packet.
    pub vnet_header: bool,
    /// Limits of reassembly.
    pub limits: Limits,
    /// The path of the switch's port.
    pub port: PathBuf,
    /// ICMP within the switch, and no station for it.
    pub inline: Option<icmp::Settings>,
}

impl Settings {
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<()> {
        let settings = self;
        let Settings { address, peer, prefix_bits, mtu, .. } = *settings;
        let invalid = |why: String| {
            let object = format!("device '{}'", settings.device);
            Err(Error::new(ErrorKind::Invalid, "make", object, why))
        };
        if !(8..=30).contains(&prefix_bits) {
            return invalid(format!("/{prefix_bits} is out of range: /8 to /30"));
        }
        if mtu < 68 {
            return invalid(format!("an MTU of {mtu} is out of range: 68 to 65535"));
        }
        let net = Net::new(address, prefix_bits);
        if !net.is_host(address) {
            return invalid(format!("{address} is no host's address on a net of /{prefix_bits}"));
        }
        if !net.has(peer) || !net.is_host(peer) || peer == address {
            return invalid(format!(
                "{peer} is no other host on the net of {address}/{prefix_bits}"
            ));
        }
        match settings.gateway {
            Some(gateway) if !net.has(gateway) || gateway == address => invalid(format!(
                "the gateway {gateway} is not on the net of {address}/{prefix_bits}"
            )),
            _ => Ok(()),
        }
    }

    /// Makes the device, and gives the kernel its address on it.
    pub(super) fn open_device(&self) -> Result<Tun> {
        let settings = self;
        let object = || format!("device '{}'", settings.device);
        let opened = Tun::open(&settings.device, settings.vnet_header);
        let tun = opened.map_err(|cause| match Errno::from_io_error(&cause) {
            Some(Errno::BUSY) => {
                Error::new(ErrorKind::Taken, "make", object(), "another process has it")
            }
            Some(Errno::NOENT) => {
                let why = "there is no /dev/net/tun (modprobe tun)";
                Error::new(ErrorKind::NoDevice, "make", object(), why)
            }
            Some(Errno::PERM | Errno::ACCESS) => {
                let why = "this user may not: it takes CAP_NET_ADMIN (root has it)";
                Error::new(ErrorKind::Denied, "make", object(), why)
            }
            Some(Errno::INVAL) => Error::new(
                ErrorKind::Taken,
                "make",
                object(),
                "a device of another kind has the name",
            ),
            _ => Error::os("make", object(), cause),
        })?;
        let Settings { peer, prefix_bits, mtu, .. } = *settings;
        let configured = weir_sys::tun::configure(&settings.device, peer, prefix_bits, mtu);
        configured.map_err(|cause| Error::os("configure", object(), cause))?;
        Ok(tun)
    }
}
