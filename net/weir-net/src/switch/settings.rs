//! The settings of a switch, and their check.

use crate::division::Division;
use crate::error::{Error, ErrorKind, Result};
use crate::icmp;
use crate::net::Net;
use crate::reassembly::ReassemblyLimits;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The settings of a switch.
#[derive(Clone, Debug)]
pub struct SwitchSettings {
    /// The name of the device: of a TUN device that is made, or of an Ethernet device that exists.
    pub device: String,
    /// Our address.
    pub address: Ipv4Addr,
    /// The kernel's address on a TUN device. `None`: it is an Ethernet device.
    pub peer: Option<Ipv4Addr>,
    /// Bits of the address that are the net's number.
    pub prefix_bits: u8,
    /// Longest packet of the device, in bytes: 68 to 65,535.
    pub mtu: u16,
    /// The gateway to other nets, if any.
    pub gateway: Option<Ipv4Addr>,
    /// Ask for the device's header before each packet.
    pub vnet_header: bool,
    /// Who fills and checks headers.
    pub division: Division,
    /// Limits of reassembly.
    pub limits: ReassemblyLimits,
    /// The path of the switch's port.
    pub port: PathBuf,
    /// Answer ICMP within the switch, without a station for it.
    pub inline: Option<icmp::IcmpSettings>,
}

impl SwitchSettings {
    pub(super) fn check(&self) -> Result<()> {
        let settings = self;
        let SwitchSettings { address, peer, prefix_bits, mtu, .. } = *settings;
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
            return invalid(format!(
                "{address} is not the address of a host in a net of /{prefix_bits}"
            ));
        }
        if let Some(peer) = peer
            && (!net.has(peer) || !net.is_host(peer) || peer == address)
        {
            return invalid(format!(
                "{peer} is not another host in the net {address}/{prefix_bits}"
            ));
        }
        match settings.gateway {
            Some(gateway) if !net.has(gateway) || gateway == address => {
                invalid(format!("the gateway {gateway} is not in the net {address}/{prefix_bits}"))
            }
            _ => Ok(()),
        }
    }
}
