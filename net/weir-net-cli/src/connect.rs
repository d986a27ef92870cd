//! `weir net connect`: a TCP connection from the host behind a switch, between standard input and
//! standard output.

use super::stop_flag;
use super::switch::NamedSwitch;
use super::telnet::TelnetTalk;
use crate::args::{NetConnectOptions, NetTelnetOptions};
use crate::failed;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io::IsTerminal;
use std::net::SocketAddrV4;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_command::ends::BufferOutput;
use weir_command::fault::Fault;
use weir_command::output::Output;
use weir_net::readiness::wait_for;
use weir_net::tcp::endpoint::TcpEndpoint;
use weir_net::tcp::{ConnectionId, Phase, Stack};

/// The longest single wait, so that an interrupt is seen.
pub const LOOK: Duration = Duration::from_millis(100);
/// Most bytes of standard input that are read at once.
const INPUT_BYTES: usize = 64 << 10;
/// Most bytes that wait to be sent before no more is heard: Telnet doubles some of the input, and
/// that alone must not stop it, since the other side may wait until it is heard.
const MOST_WAITING_BYTES: usize = 3 * INPUT_BYTES;

pub fn connect(options: &NetConnectOptions) -> Result<ExitCode, Fault> {
    let to = SocketAddrV4::new(options.host, options.port);
    talk(options.tun.as_deref(), to, None)
}

/// As [`connect`], by Telnet.
pub fn telnet(options: &NetTelnetOptions) -> Result<ExitCode, Fault> {
    let to = SocketAddrV4::new(options.host, options.port);
    talk(options.tun.as_deref(), to, Some(TelnetTalk::new(options.binary)))
}

/// Connects, and passes bytes between the connection and the standard input and output, as they are
/// or by Telnet.
fn talk(
    tun: Option<&str>,
    to: SocketAddrV4,
    telnet: Option<TelnetTalk>,
) -> Result<ExitCode, Fault> {
    let stop = stop_flag()?;
    let output = BufferOutput::new(None)?;
    let switch = NamedSwitch::find(tun)?;
    let attached = TcpEndpoint::dynamic(&switch.port, &switch.directory);
    let mut endpoint = switch.attached(attached)?;
    let Some(id) = endpoint.connect(to) else {
        let why = "no connection can be made to that address";
        return Err(Fault::failed(format!("cannot connect to {to}: {why}")));
    };
    endpoint.poll().map_err(failed)?;
    let mut talk = Talk {
        endpoint,
        id,
        to,
        output,
        telnet,
        waiting: Vec::new(),
        unwritten: Vec::new(),
        was_open: false,
        input_ended: false,
        output_is_full: false,
        output_ended: false,
    };
    let end = talk.run(&stop);
    if end.is_err() {
        // The other side is told, unless the switch has gone.
        talk.endpoint.stack().abort(id);
        let _ = talk.endpoint.poll();
    }
    end
}

struct Talk {
    endpoint: TcpEndpoint,
    id: ConnectionId,
    to: SocketAddrV4,
    /// Nothing waits for it: the connection is served while nobody reads what came.
    output: BufferOutput,
    /// Telnet, where it is spoken.
    telnet: Option<TelnetTalk>,
    /// Bytes to send that had no room yet.
    waiting: Vec<u8>,
    /// What came by Telnet, and the output had no room for yet. Other bytes stay in the stack.
    unwritten: Vec<u8>,
    was_open: bool,
    input_ended: bool,
    output_is_full: bool,
    output_ended: bool,
}

impl Talk {
    fn run(&mut self, stop: &AtomicBool) -> Result<ExitCode, Fault> {
        let mut ended = false;
        // Relaxed: no other data depends on the flag.
        while !stop.load(Ordering::Relaxed) {
            let phase = self.endpoint.stack().phase(self.id);
            let is_written = self.unwritten.is_empty();
            match phase {
                Phase::Opening => self.is_reachable()?,
                Phase::Open { receives, .. } => {
                    self.was_open = true;
                    if self.telnet.as_ref().is_some_and(|telnet| telnet.is_quit) {
                        self.endpoint.stack().abort(self.id);
                        self.endpoint.poll().map_err(failed)?;
                        return Ok(ExitCode::SUCCESS);
                    }
                    if !self.receive()? {
                        return self.leave();
                    }
                    if !receives && is_written && !self.output_ended {
                        self.output_ended = true;
                        Output::stdout()?.end_stdout()?;
                    }
                    // A user who types is not asked for more once the other side has sent its last.
                    let is_last = self.input_ended || std::io::stdin().is_terminal();
                    if !receives && !ended && is_last {
                        ended = true;
                        self.endpoint.stack().close(self.id);
                        self.endpoint.poll().map_err(failed)?;
                        continue;
                    }
                }
                Phase::Finished | Phase::Closed if !is_written => {
                    if !self.receive()? {
                        return self.leave();
                    }
                }
                Phase::Finished => return Ok(ExitCode::SUCCESS),
                Phase::Closed if ended && self.is_done() => return Ok(ExitCode::SUCCESS),
                Phase::Closed => return Err(self.lost()),
            }
            let has_input = self.wait()?;
            if has_input {
                self.send()?;
            }
            self.flush();
            self.endpoint.run_for(Duration::ZERO).map_err(failed)?;
        }
        Err(Fault::interrupted())
    }

    /// Ends at once, since nobody reads the output.
    fn leave(&mut self) -> Result<ExitCode, Fault> {
        self.endpoint.stack().abort(self.id);
        self.endpoint.poll().map_err(failed)?;
        Ok(Fault::reader_gone().end())
    }

    /// Whether the other side has acknowledged all of the input. A terminal's need not be: its
    /// user was not asked for more. Nor need answers of Telnet.
    fn is_done(&mut self) -> bool {
        let Talk { endpoint, id, input_ended, telnet, .. } = self;
        !*input_ended || telnet.is_some() || endpoint.stack().left_bytes(*id) == 0
    }

    fn lost(&self) -> Fault {
        let Talk { to, .. } = self;
        match self.was_open {
            true => Fault::failed(format!("lost the connection to {to}: it was reset")),
            false => {
                Fault::failed(format!("cannot connect to {to}: it refuses or does not answer"))
            }
        }
    }

    fn is_reachable(&mut self) -> Result<(), Fault> {
        match self.endpoint.take_unreachable() {
            Some(to) if to == self.to => {
                Err(Fault::failed(format!("cannot connect to {to}: it cannot be reached")))
            }
            _ => Ok(()),
        }
    }

    /// Writes what has come, as far as the output takes it. False if nobody reads it.
    fn receive(&mut self) -> Result<bool, Fault> {
        let Talk { endpoint, id, output, telnet, waiting, unwritten, output_is_full, .. } = self;
        *output_is_full = false;
        let mut written = Ok(0);
        loop {
            if !unwritten.is_empty() {
                written = write_some(output, unwritten);
                unwritten.drain(..written.as_ref().map_or(0, |bytes| *bytes));
            }
            *output_is_full = !unwritten.is_empty();
            if *output_is_full || written.is_err() {
                return reads(output, written);
            }
            if waiting.len() >= MOST_WAITING_BYTES {
                // A side that only asks, and takes no answers, is not heard further.
                if !endpoint.stack().is_over(*id) {
                    return Ok(true);
                }
                // It takes none any more, and the rest of what it sent is still read.
                waiting.clear();
            }
            let bytes = endpoint.stack().receive(*id, &mut |bytes| {
                if let Some(telnet) = telnet {
                    unwritten.extend_from_slice(telnet.take(bytes, waiting));
                    return bytes.len();
                }
                written = write_some(output, bytes);
                let taken = written.as_ref().map_or(0, |taken| *taken);
                *output_is_full = taken < bytes.len();
                taken
            });
            if bytes == 0 || *output_is_full {
                return reads(output, written);
            }
        }
    }

    /// Waits for something to do. Returns whether there is input, and room for it.
    fn wait(&mut self) -> Result<bool, Fault> {
        let Talk { endpoint, id, telnet, input_ended, was_open, waiting, output_is_full, .. } =
            self;
        let most = endpoint.idle_time(LOOK);
        let has_room = match telnet.as_ref().is_some_and(TelnetTalk::is_raw) {
            // Its user ends the command by a character, even where nothing is taken.
            true => waiting.len() < 2 * MOST_WAITING_BYTES,
            false => waiting.is_empty() && endpoint.stack().room_bytes(*id) > 0,
        };
        let wants = *was_open && !*input_ended && has_room;
        let input = rustix::stdio::stdin();
        let bell = endpoint.poll_descriptor().map_err(failed)?;
        let mut asked = vec![PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        if wants {
            asked.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
        }
        if *output_is_full {
            asked.push(PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::OUT));
        }
        wait_for(&mut asked, Some(most), "packets, input and output").map_err(failed)?;
        Ok(wants && !asked[1].revents().is_empty())
    }

    fn send(&mut self) -> Result<(), Fault> {
        let Talk { input_ended, telnet, waiting, .. } = self;
        let mut bytes = [0; INPUT_BYTES];
        let read = rustix::io::read(rustix::stdio::stdin(), &mut bytes);
        let count = match read {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(cause) => return Err(Fault::unreadable(None, cause)),
        };
        *input_ended |= count == 0;
        match telnet {
            None => waiting.extend_from_slice(&bytes[..count]),
            Some(telnet) => telnet.put(&bytes[..count], waiting),
        }
        Ok(())
    }

    /// Sends what waits, as far as there is room. After the last of the input the other side is told.
    fn flush(&mut self) {
        let Talk { endpoint, id, waiting, input_ended, .. } = self;
        let mut sent = 0;
        while sent < waiting.len() {
            let more = endpoint.stack().send(*id, &mut |to| {
                let most = to.len().min(waiting.len() - sent);
                to[..most].copy_from_slice(&waiting[sent..sent + most]);
                most
            });
            if more == 0 {
                break;
            }
            sent += more;
        }
        waiting.drain(..sent);
        if *input_ended && waiting.is_empty() {
            endpoint.stack().close(*id);
        }
    }
}

/// Writes as much as the output takes at once.
pub fn write_some(output: &mut BufferOutput, bytes: &[u8]) -> Result<usize, Errno> {
    let mut asked = [PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::OUT)];
    if output.must_ask() && rustix::event::poll(&mut asked, Some(&Timespec::default()))? == 0 {
        return Ok(0);
    }
    match output.write(bytes) {
        Err(Errno::AGAIN) => Ok(0),
        written => written,
    }
}

/// Whether somebody reads the output.
fn reads(output: &BufferOutput, written: Result<usize, Errno>) -> Result<bool, Fault> {
    match written {
        Err(Errno::PIPE) => Ok(false),
        written => written.map(|_| true).map_err(|cause| output.unwritable(cause)),
    }
}
