//! Addresses on the command line.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses an address with its prefix.
pub fn net(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let wanted = || String::from("not an address with a prefix; write 10.9.0.2/24");
    let (host, bits) = text.split_once('/').ok_or_else(wanted)?;
    let host = address(host).map_err(|why| if why == NO_ADDRESS { wanted() } else { why })?;
    match bits.parse() {
        Ok(bits) if bits <= 32 => Ok((host, bits)),
        _ => Err(wanted()),
    }
}

const NO_ADDRESS: &str = "not an address; write 10.9.0.2";

/// Parses an address of IP version 4.
pub fn address(text: &str) -> Result<Ipv4Addr, String> {
    let is_ipv6 = text.parse::<Ipv6Addr>().is_ok();
    text.parse().map_err(|_| match is_ipv6 {
        true => String::from("only IPv4 is supported; write an address such as 10.9.0.2"),
        false => String::from(NO_ADDRESS),
    })
}
