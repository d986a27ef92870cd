//! How messages are printed.

use crate::args::PortReadOptions;
use crate::json;
use data_encoding::BASE64;
use serde::Serialize;
use std::collections::HashMap;
use weir::Received;

const SCHEMA: &str = "weir.port.read/1";

/// How messages are printed.
#[derive(Debug)]
pub enum Form {
    /// This after each; with the writer and its count before each line, if asked.
    Ended(u8, bool),
    /// The length before each.
    Prefixed,
    /// Nothing but the messages.
    Raw,
    /// A line of JSON each, with the names of the writers' processes.
    Json(Commands),
}

/// The names of processes, by the number of the writer; looked up at its first message.
pub type Commands = HashMap<u64, Option<String>>;

/// A message as JSON.
#[derive(Debug, Serialize)]
struct MessageLine<'a> {
    writer: WriterBody<'a>,
    sequence: u64,
    /// Nothing where it is no UTF-8.
    text: Option<&'a str>,
    /// Nothing where there is text.
    base64: Option<String>,
}

#[derive(Debug, Serialize)]
struct WriterBody<'a> {
    pid: Option<i32>,
    command: Option<&'a str>,
    uid: u32,
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

    /// Puts a message into what is to be printed.
    pub fn put(&mut self, out: &mut Vec<u8>, received: &Received, message: &[u8]) {
        let (writer, sequence) = (received.writer, received.sequence);
        match self {
            Form::Ended(end, header) => {
                if !*header {
                    out.extend_from_slice(message);
                    out.push(*end);
                    return;
                }
                // A message may hold what ends a line. Were the header before its first line alone,
                // it could make others look like those of another writer.
                let header = format!("{writer}:{sequence}\t");
                for line in message.split(|byte| *byte == *end) {
                    out.extend_from_slice(header.as_bytes());
                    out.extend_from_slice(line);
                    out.push(*end);
                }
            }
            Form::Prefixed => {
                // A message has at most 1 GiB.
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
    let command = commands.entry(number).or_insert_with(|| pid.and_then(json::command));
    let text = std::str::from_utf8(message).ok();
    let line = MessageLine {
        writer: WriterBody { pid, command: command.as_deref(), uid: received.identity.uid, number },
        sequence: received.sequence,
        text,
        base64: text.is_none().then(|| BASE64.encode(message)),
    };
    // Numbers and texts can always be written.
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
