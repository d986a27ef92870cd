//! A station: attaches to a switch for a port of UDP, and sends back what comes.
//!
//! ```sh
//! weir net up --addr 10.9.0.2/24 --peer 10.9.0.1 &
//! cargo run -p weir-net --example udp_echo -- weir0 7
//! ```

use std::net::SocketAddrV4;
use std::time::Duration;
use weir_net::message::{Checksum, Want};
use weir_net::names;
use weir_net::outgoing::Outgoing;
use weir_net::station::{Station, StationMessage};
use weir_net::wire::ipv4::{Datagram, protocol};
use weir_net::wire::udp;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let tun = words.next().unwrap_or_else(|| String::from("weir0"));
    let port: u16 = words.next().as_deref().unwrap_or("7").parse()?;
    let wants = [Want { protocol: protocol::UDP, port: Some(port) }];
    let mut station = Station::attach(&names::switch_port(&tun)?, &names::find(&tun)?, &wants)?;
    let own = station.attached().address;
    println!("attached: port {port} of {own}");
    let mut reply = Vec::new();
    loop {
        station.receive_for(Duration::from_secs(1), |sender, arrival| {
            let StationMessage::Packet { bytes, checksum } = arrival else { return };
            let Ok(datagram) = Datagram::check(bytes) else { return };
            let peer = datagram.header().source;
            // A packet of this machine's kernel may come without its checksum.
            let mut payload = datagram.payload().to_vec();
            if checksum == Checksum::LeftOut && payload.len() >= udp::HEADER_BYTES {
                payload[6..8].fill(0);
            }
            let Ok(asked) = udp::UdpDatagram::check(peer, own, &payload) else { return };
            reply.resize(udp::HEADER_BYTES + asked.payload().len(), 0);
            let (from, to) =
                (SocketAddrV4::new(own, port), SocketAddrV4::new(peer, asked.source_port()));
            let made = udp::emit(from, to, asked.payload(), &mut reply);
            if made.is_some() {
                sender.send(&Outgoing::new(peer, protocol::UDP), &reply);
            }
        })?;
    }
}
