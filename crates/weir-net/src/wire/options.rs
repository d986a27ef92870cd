//! Options of an IPv4 header (RFC 791 3.1): read, refused, passed over, and filled in.
//!
//! - Record route and timestamp are honoured, once, by who answers ([`for_reply`], then
//!   [`update`]).
//! - Source routes are refused, be they used up or not: whoever sends one decides which way our
//!   answers go (RFC 7126 4.3, 4.4 has them refused by filters).
//! - All others, known or not, are passed over by their length and not read (RFC 1122 3.2.1.8).
//! - What lies after the end of the list is not looked at.

use super::ipv4::{LEAST_HEADER_BYTES, MOST_OPTION_BYTES};
use std::net::Ipv4Addr;

/// Types of options: copy bit, two bits of class, number.
pub mod kind {
    /// The list ends here.
    pub const END: u8 = 0;
    /// One byte of nothing.
    pub const NO_OPERATION: u8 = 1;
    /// Each host and gateway on the way leaves its address.
    pub const RECORD_ROUTE: u8 = 7;
    /// Each host and gateway on the way leaves the time.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// Stream identifier.
    pub const STREAM: u8 = 136;
    /// Strict source route.
    pub const STRICT_ROUTE: u8 = 137;
    /// In a type: every fragment has this option, not only the first.
    pub const COPIED: u8 = 0x80;
}

/// Where a record route's or timestamp's pointer lies, and the overflow count and flags of the
/// latter.
const POINTER: usize = 2;
const FLAGS: usize = 3;
/// Values of a pointer to the first entry: it counts from 1.
const FIRST_ADDRESS: usize = 4;
const FIRST_TIME: usize = 5;

/// Forms of a timestamp option.
const TIMES: u8 = 0;
const ADDRESSES_AND_TIMES: u8 = 1;
const ADDRESSES_GIVEN: u8 = 3;

/// Why a header's options cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The byte of the header it was found at, as an ICMP parameter problem says it: the first
    /// option's type is byte 20.
    pub pointer: u8,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its length is missing, below what it needs, or beyond the header's end.
    Length,
    /// Its pointer points before its entries, or to room that is not for whole entries.
    Pointer,
    /// There are two of a kind of which there can be one.
    Twice,
    /// The count of those that had no room for a timestamp is full (RFC 791: the datagram is in
    /// error).
    Overflow,
    /// It is a source route, loose or strict, well-formed: refused.
    SourceRoute,
}

/// What a header's options are, all of which can be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// There is a record route.
    pub record_route: bool,
    /// There is a timestamp.
    pub timestamp: bool,
    /// How many were passed over unread.
    pub others: u8,
}

/// One option that is more than a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where it lies among the options, in bytes.
    pub at: usize,
    /// Its type, see [`kind`].
    pub kind: u8,
    /// All of it, type and length (at least 2) included.
    pub bytes: &'a [u8],
}

/// The options of a header one after another, see [`each`]. After a [`Problem`] there are no more.
#[derive(Clone, Debug)]
pub struct Each<'a> {
    options: &'a [u8],
    at: usize,
}

/// Goes through `options`, of which a header has at most 40 bytes: more are not looked at.
///
/// Ends of list and no-operations are not shown.
pub fn each(options: &[u8]) -> Each<'_> {
    Each { options: &options[..options.len().min(MOST_OPTION_BYTES)], at: 0 }
}

impl<'a> Iterator for Each<'a> {
    type Item = Result<Entry<'a>, Problem>;

    fn next(&mut self) -> Option<Result<Entry<'a>, Problem>> {
        loop {
            let at = self.at;
            match *self.options.get(at)? {
                kind::END => self.at = self.options.len(),
                kind::NO_OPERATION => self.at += 1,
                kind => {
                    let bytes = entry(&self.options[at..]);
                    self.at = bytes.map_or(self.options.len(), |bytes| at + bytes.len());
                    let entry = bytes.map(|bytes| Entry { at, kind, bytes });
                    let length_at = (at + 1).min(self.options.len() - 1);
                    return Some(entry.ok_or(problem(length_at, Reason::Length)));
                }
            }
        }
    }
}

/// The option at the front, as long as it says, or nothing if that cannot be.
fn entry(options: &[u8]) -> Option<&[u8]> {
    let bytes = usize::from(*options.get(1)?);
    if bytes < 2 { None } else { options.get(..bytes) }
}

fn problem(at: usize, reason: Reason) -> Problem {
    Problem { pointer: (LEAST_HEADER_BYTES + at) as u8, reason }
}

/// Checks the options of a datagram that was received: the first problem, or what they are.
pub fn verify(options: &[u8]) -> Result<Seen, Problem> {
    let mut seen = Seen::default();
    for entry in each(options) {
        let entry = entry?;
        match entry.kind {
            kind::RECORD_ROUTE => {
                once(&mut seen.record_route, entry.at)?;
                room_of_route(&entry)?;
            }
            kind::TIMESTAMP => {
                once(&mut seen.timestamp, entry.at)?;
                room_of_times(&entry)?;
            }
            kind::LOOSE_ROUTE | kind::STRICT_ROUTE => {
                return Err(problem(entry.at, Reason::SourceRoute));
            }
            _ => seen.others += 1,
        }
    }
    Ok(seen)
}

fn once(seen: &mut bool, at: usize) -> Result<(), Problem> {
    if std::mem::replace(seen, true) { Err(problem(at, Reason::Twice)) } else { Ok(()) }
}

/// Where in a record route the next address goes; `None` if it is full.
fn room_of_route(entry: &Entry<'_>) -> Result<Option<usize>, Problem> {
    if entry.bytes.len() < FIRST_ADDRESS - 1 {
        return Err(problem(entry.at + 1, Reason::Length));
    }
    room(entry, FIRST_ADDRESS, 4)
}

/// Where in a timestamp the next entry goes; `None` if it is full, or of a form that nobody has
/// described, which is left as it is.
fn room_of_times(entry: &Entry<'_>) -> Result<Option<usize>, Problem> {
    if entry.bytes.len() < FIRST_TIME - 1 {
        return Err(problem(entry.at + 1, Reason::Length));
    }
    match entry.bytes[FLAGS] & 0xf {
        TIMES => room(entry, FIRST_TIME, 4),
        ADDRESSES_AND_TIMES | ADDRESSES_GIVEN => room(entry, FIRST_TIME, 8),
        _ => Ok(None),
    }
}

/// RFC 791: some room but not enough for an entry is an error. It is one here too if it were only
/// after the next entry: whoever got the option from us would find it.
fn room(entry: &Entry<'_>, first: usize, entry_bytes: usize) -> Result<Option<usize>, Problem> {
    let pointer = usize::from(entry.bytes[POINTER]);
    if pointer > entry.bytes.len() {
        return Ok(None);
    }
    let at = pointer.wrapping_sub(1);
    if pointer < first || !(entry.bytes.len() - at).is_multiple_of(entry_bytes) {
        return Err(problem(entry.at + POINTER, Reason::Pointer));
    }
    Ok(Some(at))
}

/// Puts `own` address and the time, in milliseconds since midnight UT, where a record route and a
/// timestamp have room for them (RFC 1122 3.2.2.6): once, by the host that answers or sends.
///
/// A full record route is left as it is; in a full timestamp one more is counted that had no room.
/// Where addresses are given, the time is put only if `own` is the next. At a problem, which
/// [`verify`] has found before but for [`Reason::Overflow`], options before it are already filled
/// in.
pub fn update(options: &mut [u8], own: Ipv4Addr, ms_since_midnight_ut: u32) -> Result<(), Problem> {
    let most = options.len().min(MOST_OPTION_BYTES);
    let options = &mut options[..most];
    let mut from = 0;
    while let Some(entry) = each(&options[from..]).next() {
        let moved = |problem: Problem| Problem { pointer: problem.pointer + from as u8, ..problem };
        let entry = entry.map_err(moved)?;
        let (start, end) = (from + entry.at, from + entry.at + entry.bytes.len());
        match entry.kind {
            kind::RECORD_ROUTE => {
                let room = room_of_route(&entry).map_err(moved)?;
                if let Some(room) = room {
                    record(&mut options[start..end], room, own);
                }
            }
            kind::TIMESTAMP => {
                let room = room_of_times(&entry).map_err(moved)?;
                let option = &mut options[start..end];
                if !stamp(option, room, own, ms_since_midnight_ut) {
                    return Err(problem(start + FLAGS, Reason::Overflow));
                }
            }
            _ => {}
        }
        from = end;
    }
    Ok(())
}

fn record(option: &mut [u8], room: usize, own: Ipv4Addr) {
    option[room..room + 4].copy_from_slice(&own.octets());
    option[POINTER] += 4;
}

/// Whether the timestamp, or that there was no room for it, could be put down.
fn stamp(option: &mut [u8], room: Option<usize>, own: Ipv4Addr, ms: u32) -> bool {
    let form = option[FLAGS] & 0xf;
    if !matches!(form, TIMES | ADDRESSES_AND_TIMES | ADDRESSES_GIVEN) {
        return true;
    }
    let Some(room) = room else {
        let counted = option[FLAGS].checked_add(0x10);
        option[FLAGS] = counted.unwrap_or(option[FLAGS]);
        return counted.is_some();
    };
    let time_at = match form {
        TIMES => room,
        ADDRESSES_AND_TIMES => {
            option[room..room + 4].copy_from_slice(&own.octets());
            room + 4
        }
        ADDRESSES_GIVEN if option[room..room + 4] == own.octets() => room + 4,
        _ => return true,
    };
    option[time_at..time_at + 4].copy_from_slice(&ms.to_be_bytes());
    option[POINTER] = (time_at + 4 + 1) as u8;
    true
}

/// Those of the options of an echo request that its reply has too, as they are: record route and
/// timestamp (RFC 1122 3.2.2.6). Says how many bytes they are; options after a problem are not
/// there.
pub fn for_reply(options: &[u8], out: &mut [u8; MOST_OPTION_BYTES]) -> usize {
    choose(options, out, |kind| matches!(kind, kind::RECORD_ROUTE | kind::TIMESTAMP))
}

/// Those of the options that all fragments have, which is a bit of their type (RFC 791 3.1). Says
/// how many bytes they are; options after a problem are not there.
pub fn copied_on_fragments(options: &[u8], out: &mut [u8; MOST_OPTION_BYTES]) -> usize {
    choose(options, out, |kind| kind & kind::COPIED != 0)
}

fn choose(options: &[u8], out: &mut [u8; MOST_OPTION_BYTES], wanted: impl Fn(u8) -> bool) -> usize {
    let mut bytes = 0;
    for entry in each(options).map_while(Result::ok).filter(|entry| wanted(entry.kind)) {
        // They were at most 40 bytes, and each is there once.
        out[bytes..bytes + entry.bytes.len()].copy_from_slice(entry.bytes);
        bytes += entry.bytes.len();
    }
    bytes
}
