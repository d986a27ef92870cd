//! When a connection is given up: the other side has something to acknowledge and is not heard, or
//! nobody here asks for the connection any more and it comes no nearer to its end.
//!
//! smoltcp has a time limit of its own, which also ends a connection that merely has nothing to do.

use smoltcp::socket::tcp::{Socket, State};

/// How long either may last.
const SILENT_NS: u64 = 60_000_000_000;

/// Keeps for how long a connection has waited for the other side.
#[derive(Clone, Copy, Debug)]
pub struct SilenceClock {
    since_ns: u64,
    /// Its state, and the bytes left to be acknowledged, once it is forgotten.
    left: Option<(State, usize)>,
}

impl SilenceClock {
    /// Begins with a connection.
    pub fn new(now_ns: u64) -> SilenceClock {
        SilenceClock { since_ns: now_ns, left: None }
    }

    /// Looks at a connection; `heard_ns` says when its other side was last heard. Returns whether it
    /// is to be given up.
    pub fn is_over(
        &mut self,
        socket: &Socket<'_>,
        is_forgotten: bool,
        received_ns: impl FnOnce() -> u64,
        now_ns: u64,
    ) -> bool {
        let left = (socket.state(), socket.send_queue());
        if is_forgotten {
            // Nobody adds to what is left. Answers of a side that takes nothing do not count.
            if self.left.replace(left) != Some(left) {
                self.since_ns = now_ns;
            }
        } else if is_awaited(left) {
            self.since_ns = self.since_ns.max(received_ns());
        } else {
            self.since_ns = now_ns;
        }
        now_ns.saturating_sub(self.since_ns) >= SILENT_NS
    }
}

/// Whether the other side has something to acknowledge: bytes, a request, or our last.
fn is_awaited((state, bytes): (State, usize)) -> bool {
    let waits = matches!(state, State::SynSent | State::FinWait1 | State::Closing | State::LastAck);
    waits || (bytes > 0 && state != State::Closed)
}
