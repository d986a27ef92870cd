//! The forms in which messages are printed.

use crate::args::PortReadOptions;
use data_encoding::BASE64;
use serde::Serialize;
use std::collections::HashMap;
use weir::Received;
use weir_command::json;

const SCHEMA: &str = "weir.port.read/1";

/// The form in which messages are printed.
#[derive(Debug)]
pub enum Form {
    /// This byte after each message; if true, the writer and its sequence number before each line.
    Ended(u8, bool),
    /// The length before each message.
    Prefixed,
    /// The messages alone.
    Raw,
    /// A line of JSON for each message, with the names of the writers' processes.
    Json(Commands),
}

/// The names of the writers' processes by the writer's number, looked up at its first message.
pub type Commands = HashMap<u64, Option<String>>;

/// A message as JSON.
#[derive(Debug, Serialize)]
struct MessageLine<'a> {
    writer: WriterBody<'a>,
    sequence: u64,
    /// `None` if the message is not UTF-8.
    text: Option<&'a str>,
    /// `None` if there is text.
    base64: Option<String>,
}

#[derive(Debug, Serialize)]
struct WriterBody<'a> {
    pid: Option<i32>,
    command: Option<&'a str>,
    uid: u32,
    gid: u32,
    number: u64,
}

impl Form {
    pub fn new(options: &PortReadOptions) -> Form {
        match (options.length_prefixed, options.raw, options.json.file.is_some()) {
            (true, ..) => Form::Prefixed,
            (_, true, _) => Form::Raw,
            (.., true) => Form::Json(Commands::new()),
            _ => Form::Ended(if options.null { 0 } else { b'\n' }, options.header),
        }
    }

    /// Appends a message to the output.
    pub fn put(&mut self, out: &mut Vec<u8>, received: &Received, message: &[u8]) {
        let (writer, sequence) = (received.writer, received.sequence);
        match self {
            Form::Ended(end, header) => {
                if !*header {
                    out.extend_from_slice(message);
                    out.push(*end);
                    return;
                }
                // A message may hold line ends. Each line gets the header, so that no line can pass
                // for another writer's.
                let header = format!("{writer}:{sequence}\t");
                for line in message.split(|byte| *byte == *end) {
                    out.extend_from_slice(header.as_bytes());
                    out.extend_from_slice(line);
                    out.push(*end);
                }
            }
            Form::Prefixed => {
                // Fits: a message has at most 1 GiB.
                out.extend_from_slice(&(message.len() as u32).to_le_bytes());
                out.extend_from_slice(message);
            }
            Form::Raw => out.extend_from_slice(message),
            Form::Json(commands) => put_line(out, commands, received, message),
        }
    }

    /// Forgets a writer that has closed.
    pub fn forget(&mut self, writer: u64) {
        if let Form::Json(commands) = self {
            commands.remove(&writer);
        }
    }
}

fn put_line(out: &mut Vec<u8>, commands: &mut Commands, received: &Received, message: &[u8]) {
    let number = received.writer.number();
    let pid = Some(received.identity.pid).filter(|pid| *pid > 0);
    let (uid, gid) = (received.identity.uid, received.identity.gid);
    let command = commands.entry(number).or_insert_with(|| pid.and_then(json::command));
    let text = std::str::from_utf8(message).ok();
    let line = MessageLine {
        writer: WriterBody { pid, command: command.as_deref(), uid, gid, number },
        sequence: received.sequence,
        text,
        base64: text.is_none().then(|| BASE64.encode(message)),
    };
    // Serializing numbers and strings cannot fail.
    out.extend_from_slice(json::line(SCHEMA, line).unwrap_or_default().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}\u{fe}", "w7/Dvg=="),
        ];
        for (bytes, text) in cases {
            assert_eq!(BASE64.encode(bytes.as_bytes()), text);
        }
    }
}
