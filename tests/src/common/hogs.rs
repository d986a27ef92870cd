//! Other work on the host.

use super::killed::Killed;
use std::process::{Command, Stdio};

/// Programs that compute, each on a CPU of its own while there are enough. Dropping this kills
/// them.
#[derive(Debug)]
pub struct Hogs {
    _killed: Vec<Killed>,
}

impl Hogs {
    /// Starts this many of them. They end by themselves after a minute, so a killed test leaves
    /// none.
    pub fn start(count: usize) -> Hogs {
        let one = |_| {
            let mut command = Command::new("perl");
            command.args(["-e", "$t=time+60;1 while time<$t"]).stdin(Stdio::null());
            Killed(command.spawn().expect("perl starts"))
        };
        Hogs { _killed: (0..count).map(one).collect() }
    }
}
