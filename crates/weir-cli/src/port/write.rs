//! `weir port write`: sends what it reads, each line as soon as it is read.

use super::{asked, check_name};
use crate::args::{PortWriteOptions, quoted};
use rustix::fd::{AsFd, OwnedFd};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use weir::{ErrorKind, PortWriter, PortWriterOptions};
use weir_command::fault::Fault;
use weir_command::sys::closed_standard_descriptors;

/// Most bytes that are read at once.
const BLOCK_BYTES: usize = 256 << 10;
/// The longest message that any port takes.
const MOST_BYTES: u64 = weir_policy::pipe::MOST_BYTES;

pub fn write(options: &PortWriteOptions) -> Result<ExitCode, Fault> {
    check_name(&options.name)?;
    let mut wanted = PortWriterOptions::new().capacity_bytes(options.capacity);
    if let Some(time) = options.wait {
        wanted = wanted.connect_timeout(time);
    }
    let opened = PortWriter::connect(&options.name, &wanted);
    let mut writer = opened.map_err(|error| no_reader(error, options))?;
    for (count, message) in (1_u64..).zip(&options.message) {
        send(&mut writer, message.as_bytes(), (count, "--message"))?;
    }
    if options.message.is_empty() {
        send_input(&mut writer, options)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Converts an error of connecting. If no reader is listening, it says how to start one.
fn no_reader(error: weir::Error, options: &PortWriteOptions) -> Fault {
    if error.kind() != ErrorKind::NoReader {
        return asked(error);
    }
    let wait = if options.wait.is_none() { ", or wait for one with --wait 5s" } else { "" };
    let name = quoted(&options.name.to_string_lossy());
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    Fault::failed(format!("{error} (start one: weir port read {dashes}{name}{wait})"))
}

fn send_input(writer: &mut PortWriter, options: &PortWriteOptions) -> Result<(), Fault> {
    if closed_standard_descriptors()[0] {
        return Err(Fault::unreadable(None, "it is closed"));
    }
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned().map_err(unreadable)?;
    let mut input = BufReader::with_capacity(BLOCK_BYTES, File::from(input));
    let mut message = Vec::new();
    for count in 1_u64.. {
        message.clear();
        let more = if options.length_prefixed {
            next_prefixed(&mut input, &mut message)?
        } else {
            let end = if options.null { 0 } else { b'\n' };
            next_ended(&mut input, &mut message, end)?
        };
        if !more {
            break;
        }
        send(writer, &message, (count, "standard input"))?;
    }
    Ok(())
}

/// Sends a message, of which it is known which of where it is.
fn send(writer: &mut PortWriter, message: &[u8], (count, of): (u64, &str)) -> Result<(), Fault> {
    writer.send(message).map_err(|error| match error.kind() {
        ErrorKind::Invalid => Fault::failed(format!("{error} (message {count} of {of})")),
        _ => error.into(),
    })
}

/// Reads the next message, up to its end or the end of the input; false if there is none.
fn next_ended(input: &mut impl BufRead, message: &mut Vec<u8>, end: u8) -> Result<bool, Fault> {
    // Of a message that is too long, only enough is read for the send to refuse it.
    let mut bounded = input.take(MOST_BYTES + 2);
    if bounded.read_until(end, message).map_err(unreadable)? == 0 {
        return Ok(false);
    }
    if message.last() == Some(&end) {
        message.pop();
    }
    Ok(true)
}

fn next_prefixed(input: &mut impl BufRead, message: &mut Vec<u8>) -> Result<bool, Fault> {
    let torn = || Fault::failed("standard input ends in the middle of a message");
    let mut length = Vec::with_capacity(4);
    input.take(4).read_to_end(&mut length).map_err(unreadable)?;
    if length.is_empty() {
        return Ok(false);
    }
    let length = u32::from_le_bytes(length.try_into().map_err(|_| torn())?);
    if u64::from(length) > MOST_BYTES {
        let why = format!("cannot send a message of {length} bytes: the limit is {MOST_BYTES}");
        return Err(Fault::failed(format!("{why}; does each message follow its length?")));
    }
    // The buffer grows as bytes come, since the length may be wrong.
    input.take(length.into()).read_to_end(message).map_err(unreadable)?;
    if message.len() == length as usize { Ok(true) } else { Err(torn()) }
}

fn unreadable(error: io::Error) -> Fault {
    Fault::unreadable(None, error)
}
