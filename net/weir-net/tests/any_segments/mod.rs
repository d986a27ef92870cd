//! TCP against other sides that send anything, at any time. Of the tests here and of the fuzzer.
//!
//! What holds whatever comes: nothing panics; what is sent is sound, no longer than it may be, and
//! carries the bytes that were given to be sent, each at its place; what is received are bytes that were
//! sent, each at its place; and neither a reset nor a request whose number is not the next one ends a
//! connection.

use std::net::Ipv4Addr;
use weir_net::division::Division;
use weir_net::message::Attached;
use weir_net::tcp::smol::SmolStack;
use weir_net::tcp::{ConnectionId, Outlet, Phase, Stack};
use weir_net::wire::checksum::RunningSum;
use weir_net::wire::ipv4::{Datagram, Header, protocol};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 7;
const FIRST_CLIENT: u16 = 5000;
const MTU: u16 = 1500;
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
const FLAGS: [u8; 16] = [
    ACK,
    ACK,
    ACK,
    ACK | 8,
    ACK | 8,
    ACK | FIN,
    FIN,
    SYN,
    SYN,
    SYN | ACK,
    RST,
    RST,
    RST | ACK,
    0,
    63,
    SYN | FIN,
];
const MS: u64 = 1_000_000;
const TIMES_MS: [u64; 8] = [0, 1, 40, 250, 1_000, 3_000, 11_000, 61_000];

/// The byte that a client sends at a sequence number, and that our side sends at a place.
fn byte_at(at: u32) -> u8 {
    (at.wrapping_mul(0x9e37_79b1) >> 23) as u8
}

/// A client, as far as our side has told it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// The number of our first byte, once our SYN came.
    pub first: Option<u32>,
    /// The number of the first byte of its own that our side took.
    pub own_first: u32,
    /// What our side expects next.
    pub expected: u32,
    /// The number after the last that our side sent.
    pub sent_end: u32,
    /// Resets that came from our side.
    pub resets: usize,
    /// Segments that came from our side.
    pub segments: usize,
    /// The flags of the last.
    pub flags: u8,
    /// The window field of the last.
    pub window: u16,
}

/// What our side sends is checked, and told to its client.
struct Checker<'a> {
    clients: &'a mut [Client],
    offloads: bool,
}

impl Outlet for Checker<'_> {
    fn send(&mut self, bytes: usize, segment_bytes: Option<u16>, fill: &mut dyn FnMut(&mut [u8])) {
        let mut packet = vec![0; bytes];
        fill(&mut packet);
        let datagram = Datagram::check(&packet).expect("a datagram");
        let (header, segment) = (datagram.header(), datagram.payload());
        assert_eq!(header.protocol, protocol::TCP);
        assert!(segment_bytes.is_some() || packet.len() <= usize::from(MTU));
        let mut sum = pseudo(&header, segment.len());
        let written = u16::from_be_bytes([segment[16], segment[17]]);
        if self.offloads {
            assert_eq!(written, !sum.finish(), "the device adds the rest");
        } else {
            assert_eq!(segment_bytes, None);
            sum.add(segment);
            assert_eq!(sum.finish(), 0, "a wrong checksum");
        }
        let to = u16::from_be_bytes([segment[2], segment[3]]);
        let Some(client) = to.checked_sub(FIRST_CLIENT).map(usize::from) else { return };
        let Some(client) = self.clients.get_mut(client) else { return };
        client.see(segment);
    }
}

impl Client {
    fn see(&mut self, segment: &[u8]) {
        let long = |at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
        let (sequence, acknowledgement, flags) = (long(4), long(8), segment[13]);
        let data = &segment[usize::from(segment[12] >> 4) * 4..];
        (self.segments, self.flags) = (self.segments + 1, flags);
        if flags & RST != 0 {
            self.resets += 1;
            return;
        }
        let end = sequence.wrapping_add(data.len() as u32).wrapping_add((flags & FIN).into());
        if flags & SYN != 0 {
            (self.first, self.own_first) = (Some(sequence.wrapping_add(1)), acknowledgement);
            self.sent_end = sequence.wrapping_add(1);
        } else {
            let first = self.first.expect("nothing is sent before a SYN");
            let place = sequence.wrapping_sub(first);
            for (at, byte) in data.iter().enumerate() {
                assert_eq!(*byte, byte_at(place.wrapping_add(at as u32)), "a byte at {place}+{at}");
            }
            if end.wrapping_sub(self.sent_end).cast_signed() > 0 {
                self.sent_end = end;
            }
        }
        self.expected = acknowledgement;
        self.window = u16::from_be_bytes([segment[14], segment[15]]);
    }
}

fn pseudo(header: &Header, segment_bytes: usize) -> RunningSum {
    let mut sum = RunningSum::new();
    sum.add(&header.source.octets());
    sum.add(&header.destination.octets());
    sum.add_word(protocol::TCP.into());
    sum.add_word(segment_bytes as u16);
    sum
}

/// A connection that was accepted.
#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    /// The number of the next byte that is read.
    next: u32,
    /// The place of the next byte that is sent.
    place: u32,
    closed: bool,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent<'a> {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub window: u16,
    pub options: &'a [u8],
    pub data_bytes: usize,
}

/// Our side, its clients, and its connections.
pub struct Game {
    pub stack: SmolStack,
    pub now_ns: u64,
    offloads: bool,
    pub clients: Vec<Client>,
    connections: Vec<Connection>,
}

impl Game {
    pub fn new(offloads: bool, clients: usize) -> Game {
        let division = Division::Later;
        let at =
            Attached { address: HOST, peer: PEER, prefix_bits: 24, mtu: MTU, offloads, division };
        let mut stack = SmolStack::new(&at, 1);
        stack.listen(PORT);
        let clients = vec![Client::default(); clients];
        let mut game = Game { stack, now_ns: 1, offloads, clients, connections: Vec::new() };
        game.poll();
        game
    }

    /// Lets our side send, and takes new connections.
    pub fn poll(&mut self) {
        let mut outlet = Checker { clients: &mut self.clients, offloads: self.offloads };
        self.stack.poll(self.now_ns, &mut outlet);
        while let Some(accepted) = self.stack.accept() {
            assert_eq!((accepted.local_port, *accepted.remote.ip()), (PORT, PEER));
            let client = &self.clients[usize::from(accepted.remote.port() - FIRST_CLIENT)];
            let (id, next, place, closed) = (accepted.id, client.own_first, 0, false);
            self.connections.push(Connection { id, next, place, closed });
        }
    }

    /// Lets time pass.
    pub fn wait(&mut self, ms: u64) {
        self.now_ns += ms * MS;
        self.poll();
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        let open = |it: &&Connection| matches!(self.stack.phase(it.id), Phase::Open { .. });
        self.connections.iter().filter(open).count()
    }

    /// Connections on which neither side sends any more.
    pub fn over(&self) -> usize {
        self.connections.iter().filter(|it| self.stack.is_over(it.id)).count()
    }

    /// Connections that were accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Sends a segment of a client, whose data are those of its numbers.
    pub fn segment(&mut self, client: usize, sent: Sent<'_>) {
        let Sent { flags, sequence, acknowledgement, window, options, data_bytes } = sent;
        let mut segment = vec![0; 20];
        segment[..2].copy_from_slice(&(FIRST_CLIENT + client as u16).to_be_bytes());
        segment[2..4].copy_from_slice(&PORT.to_be_bytes());
        segment[4..8].copy_from_slice(&sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
        (segment[12], segment[13]) = ((5 + options.len() as u8 / 4) << 4, flags);
        segment[14..16].copy_from_slice(&window.to_be_bytes());
        segment.extend_from_slice(&options[..options.len() / 4 * 4]);
        // SYN is the byte before the first.
        let first = sequence.wrapping_add(u32::from(flags & SYN != 0));
        segment.extend((0..data_bytes as u32).map(|at| byte_at(first.wrapping_add(at))));
        self.payload(segment, true);
    }

    /// Sends the payload of a datagram.
    fn payload(&mut self, mut payload: Vec<u8>, is_sound: bool) {
        let header = Header {
            tos: 0,
            total_bytes: (20 + payload.len()) as u16,
            id: 0,
            dont_fragment: false,
            more_fragments: false,
            offset_bytes: 0,
            ttl: 64,
            protocol: protocol::TCP,
            source: PEER,
            destination: HOST,
        };
        if is_sound {
            let mut sum = pseudo(&header, payload.len());
            sum.add(&payload);
            payload[16..18].copy_from_slice(&sum.finish().to_be_bytes());
        }
        let mut packet = vec![0; 20];
        header.emit(&[], &mut packet).expect("a header");
        packet.extend_from_slice(&payload);
        let mut outlet = Checker { clients: &mut self.clients, offloads: self.offloads };
        self.stack.take(&packet, false, self.now_ns, &mut outlet);
    }

    /// Opens a connection of a client.
    pub fn handshake(&mut self, client: usize, sequence: u32, options: &[u8]) {
        let window = u16::MAX;
        let flags = SYN;
        self.segment(client, Sent { flags, sequence, window, options, ..Sent::default() });
        self.poll();
        let Client { sent_end: acknowledgement, expected: sequence, .. } = self.clients[client];
        let ack = Sent { flags: ACK, sequence, acknowledgement, window, ..Sent::default() };
        self.segment(client, ack);
        self.poll();
    }

    /// Reads from a connection; returns how many bytes.
    pub fn read(&mut self, connection: usize, most: usize) -> usize {
        let Some(Connection { id, next, .. }) = self.connections.get_mut(connection) else {
            return 0;
        };
        self.stack.receive(*id, &mut |bytes| {
            let bytes = &bytes[..bytes.len().min(most)];
            for byte in bytes {
                assert_eq!(*byte, byte_at(*next), "the byte of number {next}");
                *next = next.wrapping_add(1);
            }
            bytes.len()
        })
    }

    /// Writes to a connection; returns how many bytes.
    pub fn write(&mut self, connection: usize, most: usize) -> usize {
        let Some(Connection { id, place, .. }) = self.connections.get_mut(connection) else {
            return 0;
        };
        self.stack.send(*id, &mut |room| {
            let bytes = room.len().min(most);
            for byte in &mut room[..bytes] {
                (*byte, *place) = (byte_at(*place), place.wrapping_add(1));
            }
            bytes
        })
    }

    /// Ends a connection in one of several ways.
    pub fn end(&mut self, connection: usize, how: u8) {
        let Some(Connection { id, closed, .. }) = self.connections.get_mut(connection) else {
            return;
        };
        match how % 4 {
            0 | 1 => self.stack.close(*id),
            2 => self.stack.abort(*id),
            _ => self.stack.forget(*id),
        }
        *closed = true;
    }
}

/// Plays what the bytes say.
pub fn play(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut next = move || bytes.next();
    let Some(first) = next() else { return };
    let mut game = Game::new(first % 2 == 1, 1 + usize::from(first >> 1) % 6);
    while let Some(turn) = next() {
        let mut argument = || next().unwrap_or(0);
        let (who, size) = (usize::from(argument()), usize::from(argument()));
        let client = who % game.clients.len();
        match turn % 16 {
            0 => game.wait(TIMES_MS[size % TIMES_MS.len()]),
            1 => game.wait(0),
            2 => {
                let isn = [argument(), argument(), argument(), argument()];
                let scale = [2, 4, 5, 180, 1, 3, 3, argument()];
                let options = if size % 2 == 0 { &scale[..] } else { &[] };
                game.handshake(client, u32::from_be_bytes(isn), options);
            }
            3 | 4 => {
                game.read(who % 8, size * 300);
            }
            5 | 6 => {
                game.write(who % 8, size * 1200);
            }
            7 if size % 3 == 0 => game.end(who % 8, size as u8 / 3),
            7 => game.payload((0..size % 64).map(|_| argument()).collect(), false),
            _ => {
                let options: Vec<u8> = (0..turn as usize / 64 * 4).map(|_| argument()).collect();
                let flags = FLAGS[size % 16];
                let mut near = |number: u32| match argument() {
                    0..128 => number,
                    by @ 128..192 => number.wrapping_add_signed(i32::from(by) - 160),
                    by @ 192..240 => number.wrapping_add_signed((i32::from(by) - 216) * 1460),
                    by => number.wrapping_add(u32::from(by) << 24 | u32::from(argument()) << 9),
                };
                let known = game.clients[client];
                let (sequence, acknowledgement) = (near(known.expected), near(known.sent_end));
                let window = u16::from_be_bytes([argument(), argument()]);
                let data_bytes = [0, 0, 1, 100, 1460, 1460, 4000, 20_000][size / 32];
                if flags & (RST | SYN) != 0 {
                    // Everything is acknowledged first, so that it is clear which number is next.
                    game.poll();
                }
                let (before, expected) = (game.open(), game.clients[client].expected);
                let sent = Sent {
                    flags,
                    sequence,
                    acknowledgement,
                    window,
                    options: &options,
                    data_bytes,
                };
                game.segment(client, sent);
                if flags & RST != 0 && sequence != expected {
                    assert_eq!(game.open(), before, "a reset that is not believed ended one");
                }
            }
        }
    }
    game.wait(0);
}
