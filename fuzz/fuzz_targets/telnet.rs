//! A side of Telnet whose other side sends anything: nothing panics, data is never more than came, it
//! does not depend on how the bytes are cut, and answers are bounded by what was asked.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_net::tcp::telnet::{TelnetRole, TelnetSession};

/// Most bytes of an answer, which is one to "are you there"; a command that asks has two or more.
const MOST_ANSWER_BYTES: usize = 20;

fn taken(role: TelnetRole, pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let (mut data, mut reply) = (Vec::new(), Vec::new());
    let mut session = TelnetSession::new(role, &mut Vec::new());
    for piece in pieces {
        session.take(piece, &mut data, &mut reply);
    }
    (data, reply)
}

fuzz_target!(|bytes: &[u8]| {
    let [role, cut, bytes @ ..] = bytes else { return };
    let role = if role % 2 == 0 { TelnetRole::Client } else { TelnetRole::Server };
    let whole = taken(role, &[bytes]);
    assert!(whole.0.len() <= bytes.len());
    assert!(whole.1.len() <= MOST_ANSWER_BYTES * (bytes.len() / 2 + 1));
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    assert_eq!(taken(role, &[first, second]), whole);
    // What is sent by one side is data of the other; a client's line ends with CR LF.
    let other = match role {
        TelnetRole::Client => TelnetRole::Server,
        TelnetRole::Server => TelnetRole::Client,
    };
    let mut sent = Vec::new();
    TelnetSession::new(role, &mut Vec::new()).put(bytes, &mut sent);
    let (data, reply) = taken(other, &[&sent]);
    assert!(reply.is_empty());
    if role == TelnetRole::Server {
        assert_eq!(data, bytes);
    }
});
