//! Options of an IPv4 header (RFC 791 3.1): read, refused, skipped, and filled in.
//!
//! - The answering host fills in record route and timestamp, once ([`for_reply`], then [`update`]).
//! - Source routes are refused, even used-up ones: their sender decides which way our answers go
//!   (RFC 7126 4.3, 4.4 recommends that filters refuse them).
//! - All other options, known or not, are skipped by their length (RFC 1122 3.2.1.8).
//! - Bytes after the end of the list are ignored.

use super::ipv4::{LEAST_HEADER_BYTES, MOST_OPTION_BYTES};
use std::net::Ipv4Addr;

/// Types of options: copy bit, two bits of class, number.
pub mod kind {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation: one byte.
    pub const NO_OPERATION: u8 = 1;
    /// Record route: each host and gateway on the way adds its address.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp: each host and gateway on the way adds the time.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// Stream identifier.
    pub const STREAM: u8 = 136;
    /// Strict source route.
    pub const STRICT_ROUTE: u8 = 137;
    /// Bit of a type: all fragments carry this option, not only the first.
    pub const COPIED: u8 = 0x80;
}

/// Positions of the pointer of a record route or timestamp, and of a timestamp's overflow count and
/// flags.
const POINTER: usize = 2;
const FLAGS: usize = 3;
/// Pointer to the first entry: pointers count from 1.
const FIRST_ADDRESS: usize = 4;
const FIRST_TIME: usize = 5;

/// Forms of a timestamp option.
const TIMES: u8 = 0;
const ADDRESSES_AND_TIMES: u8 = 1;
const ADDRESSES_GIVEN: u8 = 3;

/// A fault in a header's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionProblem {
    /// The header byte at which it was found, as in an ICMP parameter problem: the first option's
    /// type is byte 20.
    pub pointer: u8,
    /// What is wrong.
    pub reason: OptionFault,
}

/// What is wrong with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionFault {
    /// Its length is missing, too small, or beyond the header's end.
    Length,
    /// Its pointer points before its entries, or its room is not for whole entries.
    Pointer,
    /// It is the second of a kind that may occur once.
    Twice,
    /// The count of hosts without room for a timestamp is full (RFC 791: the datagram is in error).
    Overflow,
    /// It is a source route, loose or strict, well-formed but refused.
    SourceRoute,
}

/// The options of a header that passed the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionSummary {
    /// There is a record route.
    pub record_route: bool,
    /// There is a timestamp.
    pub timestamp: bool,
    /// How many were skipped.
    pub others: u8,
}

/// One option longer than a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionEntry<'a> {
    /// Its position among the options, in bytes.
    pub at: usize,
    /// Its type, see [`kind`].
    pub kind: u8,
    /// Its bytes, with type and length (at least 2).
    pub bytes: &'a [u8],
}

/// An iterator over the options of a header, see [`each`]. It ends after a [`OptionProblem`].
#[derive(Clone, Debug)]
pub struct OptionIter<'a> {
    options: &'a [u8],
    at: usize,
}

/// Iterates over `options`; a header has at most 40 bytes of them, and more are ignored.
///
/// Ends of list and no-operations are skipped.
pub fn each(options: &[u8]) -> OptionIter<'_> {
    OptionIter { options: &options[..options.len().min(MOST_OPTION_BYTES)], at: 0 }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<OptionEntry<'a>, OptionProblem>;

    fn next(&mut self) -> Option<Result<OptionEntry<'a>, OptionProblem>> {
        loop {
            let at = self.at;
            match *self.options.get(at)? {
                kind::END => self.at = self.options.len(),
                kind::NO_OPERATION => self.at += 1,
                kind => {
                    let bytes = entry(&self.options[at..]);
                    self.at = bytes.map_or(self.options.len(), |bytes| at + bytes.len());
                    let entry = bytes.map(|bytes| OptionEntry { at, kind, bytes });
                    let length_at = (at + 1).min(self.options.len() - 1);
                    return Some(entry.ok_or(problem(length_at, OptionFault::Length)));
                }
            }
        }
    }
}

/// Returns the first option, as long as it states, or nothing if that is impossible.
fn entry(options: &[u8]) -> Option<&[u8]> {
    let bytes = usize::from(*options.get(1)?);
    if bytes < 2 { None } else { options.get(..bytes) }
}

fn problem(at: usize, reason: OptionFault) -> OptionProblem {
    OptionProblem { pointer: (LEAST_HEADER_BYTES + at) as u8, reason }
}

/// Checks the options of a received datagram; returns the first problem, or a summary.
pub fn verify(options: &[u8]) -> Result<OptionSummary, OptionProblem> {
    let mut seen = OptionSummary::default();
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
                return Err(problem(entry.at, OptionFault::SourceRoute));
            }
            _ => seen.others += 1,
        }
    }
    Ok(seen)
}

fn once(seen: &mut bool, at: usize) -> Result<(), OptionProblem> {
    if std::mem::replace(seen, true) { Err(problem(at, OptionFault::Twice)) } else { Ok(()) }
}

/// Returns where the next address goes in a record route; `None` if it is full.
fn room_of_route(entry: &OptionEntry<'_>) -> Result<Option<usize>, OptionProblem> {
    if entry.bytes.len() < FIRST_ADDRESS - 1 {
        return Err(problem(entry.at + 1, OptionFault::Length));
    }
    room(entry, FIRST_ADDRESS, 4)
}

/// Returns where the next entry goes in a timestamp; `None` if it is full, or has an unknown form,
/// which is left unchanged.
fn room_of_times(entry: &OptionEntry<'_>) -> Result<Option<usize>, OptionProblem> {
    if entry.bytes.len() < FIRST_TIME - 1 {
        return Err(problem(entry.at + 1, OptionFault::Length));
    }
    match entry.bytes[FLAGS] & 0xf {
        TIMES => room(entry, FIRST_TIME, 4),
        ADDRESSES_AND_TIMES | ADDRESSES_GIVEN => room(entry, FIRST_TIME, 8),
        _ => Ok(None),
    }
}

/// RFC 791: room that is too small for an entry is an error. It is one here too if it would only
/// arise after the next entry: the host that got the option from us would find it.
fn room(
    entry: &OptionEntry<'_>,
    first: usize,
    entry_bytes: usize,
) -> Result<Option<usize>, OptionProblem> {
    let pointer = usize::from(entry.bytes[POINTER]);
    if pointer > entry.bytes.len() {
        return Ok(None);
    }
    let at = pointer.wrapping_sub(1);
    if pointer < first || !(entry.bytes.len() - at).is_multiple_of(entry_bytes) {
        return Err(problem(entry.at + POINTER, OptionFault::Pointer));
    }
    Ok(Some(at))
}

/// Fills in `own` address and the time, in milliseconds since midnight UT, where a record route and
/// a timestamp have room (RFC 1122 3.2.2.6): once, by the host that answers or sends.
///
/// A full record route stays unchanged; a full timestamp counts one more host without room. In a
/// timestamp with given addresses, the time is added only if `own` is the next. If there is a
/// problem, which [`verify`] has found before except for [`OptionFault::Overflow`], the options before
/// it are already filled in.
pub fn update(
    options: &mut [u8],
    own: Ipv4Addr,
    ms_since_midnight_ut: u32,
) -> Result<(), OptionProblem> {
    let most = options.len().min(MOST_OPTION_BYTES);
    let options = &mut options[..most];
    let mut from = 0;
    while let Some(entry) = each(&options[from..]).next() {
        let moved = |problem: OptionProblem| OptionProblem {
            pointer: problem.pointer + from as u8,
            ..problem
        };
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
                    return Err(problem(start + FLAGS, OptionFault::Overflow));
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

/// Fills in the timestamp or its overflow count; returns whether that was possible.
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

/// Copies the options of an echo request that its reply repeats, unchanged: record route and
/// timestamp (RFC 1122 3.2.2.6). Returns their length; options after a problem are left out.
pub fn for_reply(options: &[u8], out: &mut [u8; MOST_OPTION_BYTES]) -> usize {
    choose(options, out, |kind| matches!(kind, kind::RECORD_ROUTE | kind::TIMESTAMP))
}

/// Copies the options that all fragments carry, by a bit of their type (RFC 791 3.1). Returns their
/// bytes; options after a problem are left out.
pub fn copied_on_fragments(options: &[u8], out: &mut [u8; MOST_OPTION_BYTES]) -> usize {
    choose(options, out, |kind| kind & kind::COPIED != 0)
}

fn choose(options: &[u8], out: &mut [u8; MOST_OPTION_BYTES], wanted: impl Fn(u8) -> bool) -> usize {
    let mut bytes = 0;
    for entry in each(options).map_while(Result::ok).filter(|entry| wanted(entry.kind)) {
        // They had at most 40 bytes, and each is there once.
        out[bytes..bytes + entry.bytes.len()].copy_from_slice(entry.bytes);
        bytes += entry.bytes.len();
    }
    bytes
}
