//! Files by HTTP/1.1 (RFC 9112): GET and HEAD, one answer after the other on a connection.

use super::{ConnectionId, Phase, Stack};
use crate::jail::{Jail, Refusal};
use percent_encoding::percent_decode;
use std::fs::File;
use std::net::SocketAddrV4;
use std::os::unix::fs::FileExt;

/// Longest head of a request.
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Most fields of a head.
const MOST_FIELDS: usize = 64;
/// Most bytes before other connections get a turn.
const TURN_BYTES: usize = 256 << 10;

/// An answer that begins.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The client.
    pub client: SocketAddrV4,
    /// The method and the path that were asked for, as they came.
    pub request: String,
    /// The status.
    pub status: u16,
    /// Bytes of the body, where it is a file.
    pub bytes: u64,
}

/// Copies as much as has room; returns how much.
pub fn fill(to: &mut [u8], from: &[u8]) -> usize {
    let bytes = to.len().min(from.len());
    to[..bytes].copy_from_slice(&from[..bytes]);
    bytes
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    pub bytes_in: usize,
    pub bytes_out: usize,
}

/// The body of an answer that is left to send.
#[derive(Debug)]
struct Body {
    file: File,
    offset: u64,
    end: u64,
}

/// An answer that is being sent.
#[derive(Debug)]
struct Answer {
    head: Vec<u8>,
    sent: usize,
    body: Option<Body>,
    closes: bool,
}

#[derive(Debug, Default)]
pub struct HttpConnection {
    received: Vec<u8>,
    answer: Option<Answer>,
    has_answered: bool,
    is_over: bool,
}

impl HttpConnection {
    /// Whether no answer is being sent.
    pub fn is_idle(&self) -> bool {
        self.answer.is_none()
    }

    /// Whether it has begun a request and not ended its head, or has sent nothing at all.
    pub fn owes_head(&self) -> bool {
        let has_begun = !self.received.is_empty() || !self.has_answered;
        self.answer.is_none() && !self.is_over && has_begun
    }

    /// Takes what came, and sends what has room.
    pub fn serve(
        &mut self,
        stack: &mut impl Stack,
        id: ConnectionId,
        jail: &Jail,
        client: SocketAddrV4,
        see: &mut impl FnMut(Answered),
    ) -> Served {
        let mut served = Served::default();
        while served.bytes_in + served.bytes_out < TURN_BYTES {
            if let Some(answer) = &mut self.answer {
                let bytes = answer.send(stack, id);
                let Some(bytes) = bytes else {
                    // The file is shorter than was announced.
                    stack.abort(id);
                    (self.answer, self.is_over) = (None, true);
                    break;
                };
                served.bytes_out += bytes;
                if answer.is_sent() {
                    if answer.closes {
                        stack.close(id);
                        self.is_over = true;
                    }
                    self.answer = None;
                    continue;
                }
                if bytes == 0 {
                    break;
                }
                continue;
            }
            let received = &mut self.received;
            let most = MOST_HEAD_BYTES.saturating_sub(received.len());
            let is_over = self.is_over;
            let bytes = stack.receive(id, &mut |bytes| {
                let taken = if is_over { bytes.len() } else { bytes.len().min(most) };
                if !is_over {
                    received.extend_from_slice(&bytes[..taken]);
                }
                taken
            });
            if !is_over {
                // What comes after the last answer keeps no connection.
                served.bytes_in += bytes;
            }
            let open = matches!(stack.phase(id), Phase::Open { sends: true, .. });
            if !self.is_over && open && !self.received.is_empty() {
                self.answer = self.answer(jail, client, see);
            }
            if self.answer.is_none() && bytes == 0 {
                break;
            }
        }
        served
    }

    /// Reads a request, if a whole one is there, and makes its answer.
    fn answer(
        &mut self,
        jail: &Jail,
        client: SocketAddrV4,
        see: &mut impl FnMut(Answered),
    ) -> Option<Answer> {
        let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let (answer, reported, status, taken) = match request.parse(&self.received) {
            Ok(httparse::Status::Partial) if self.received.len() < MOST_HEAD_BYTES => return None,
            Ok(httparse::Status::Complete(taken)) => {
                let method = request.method.unwrap_or_default();
                let path = request.path.unwrap_or_default();
                let reported = format!("{method} {path}");
                let (status, answer) = respond(jail, method, path, afterwards(&request));
                (answer, reported, status, taken)
            }
            other => {
                let is_long = matches!(other, Ok(_) | Err(httparse::Error::TooManyHeaders));
                let status = if is_long { 431 } else { 400 };
                let answer = refusal(status, Afterwards::Closes);
                (answer, String::from("(no request)"), status, self.received.len())
            }
        };
        let bytes = answer.body.as_ref().map_or(0, |body| body.end);
        see(Answered { client, request: reported, status, bytes });
        self.received.drain(..taken);
        self.has_answered = true;
        Some(answer)
    }
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Afterwards {
    Closes,
    Stays,
    /// It stays, and a client of HTTP/1.0 has to be told (RFC 9112, C.2.2).
    StaysAsAsked,
}

impl Afterwards {
    /// Returns the field of a head that says so.
    fn field(self) -> &'static str {
        match self {
            Afterwards::Closes => "Connection: close\r\n",
            Afterwards::Stays => "",
            Afterwards::StaysAsAsked => "Connection: keep-alive\r\n",
        }
    }
}

/// Returns what becomes of the connection. It closes where the client wants no further answer, or
/// must not get one: a body of a request would be taken for the next request.
fn afterwards(request: &httparse::Request<'_, '_>) -> Afterwards {
    let has = |name| fields(request, name);
    let words = |value: &[u8], word: &str| {
        let value = String::from_utf8_lossy(value).to_ascii_lowercase();
        value.split(',').any(|part| part.trim() == word)
    };
    let asked = has("connection").any(|field| words(field.value, "close"));
    let kept = has("connection").any(|field| words(field.value, "keep-alive"));
    let has_body = has("transfer-encoding").next().is_some()
        || has("content-length").any(|field| field.value != b"0");
    match request.version {
        _ if asked || has_body => Afterwards::Closes,
        Some(0) if kept => Afterwards::StaysAsAsked,
        Some(0) => Afterwards::Closes,
        _ => Afterwards::Stays,
    }
}

fn fields<'a>(
    request: &'a httparse::Request<'_, '_>,
    name: &'a str,
) -> impl Iterator<Item = &'a httparse::Header<'a>> {
    request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name))
}

fn respond(jail: &Jail, method: &str, path: &str, afterwards: Afterwards) -> (u16, Answer) {
    if !matches!(method, "GET" | "HEAD") {
        return (405, refusal(405, Afterwards::Closes));
    }
    let path = path_of(path.split(['?', '#']).next().unwrap_or_default());
    let Some(name) = path.strip_prefix('/') else {
        return (400, refusal(400, Afterwards::Closes));
    };
    let mut name: Vec<u8> = percent_decode(name.as_bytes()).collect();
    if name.is_empty() || name.ends_with(b"/") {
        name.extend_from_slice(b"index.html");
    }
    // No name has a NUL; the kernel would not be asked.
    let opened = if name.contains(&0) { Err(Refusal::NotFound) } else { jail.read(&name) };
    match opened {
        Ok((file, size)) => {
            let kind = content_type(&name);
            let head = head(200, size, kind, afterwards);
            let body = (method == "GET").then_some(Body { file, offset: 0, end: size });
            (200, Answer { head, sent: 0, body, closes: afterwards == Afterwards::Closes })
        }
        Err(refused) => {
            let status = match refused {
                Refusal::NotFound => 404,
                Refusal::Access | Refusal::Exists => 403,
                Refusal::Full | Refusal::Trouble => 503,
            };
            let mut answer = refusal(status, afterwards);
            if method == "HEAD" {
                let end = answer.head.windows(4).position(|four| four == b"\r\n\r\n");
                answer.head.truncate(end.map_or(usize::MAX, |at| at + 4));
            }
            (status, answer)
        }
    }
}

/// Returns the path of a target, which may be a whole address (RFC 9112, 3.2.2).
fn path_of(target: &str) -> &str {
    match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    }
}

fn head(status: u16, length_bytes: u64, kind: &str, afterwards: Afterwards) -> Vec<u8> {
    let reason = reason(status);
    let connection = afterwards.field();
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\nServer: weir\r\nContent-Type: {kind}\r\n\
         Content-Length: {length_bytes}\r\n{allow}{connection}\r\n"
    )
    .into_bytes()
}

fn refusal(status: u16, afterwards: Afterwards) -> Answer {
    let text = format!("{status} {}\n", reason(status));
    let mut head = head(status, text.len() as u64, "text/plain", afterwards);
    head.extend_from_slice(text.as_bytes());
    Answer { head, sent: 0, body: None, closes: afterwards == Afterwards::Closes }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

fn content_type(name: &[u8]) -> &'static str {
    let ending = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    match ending.to_ascii_lowercase().as_slice() {
        b"html" | b"htm" => "text/html",
        b"txt" | b"md" | b"log" => "text/plain",
        b"json" => "application/json",
        b"css" => "text/css",
        b"js" => "text/javascript",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        _ => "application/octet-stream",
    }
}

impl Answer {
    fn is_sent(&self) -> bool {
        self.sent == self.head.len()
            && self.body.as_ref().is_none_or(|body| body.offset == body.end)
    }

    /// Sends what has room; returns how much, or `None` where the file cannot be read any more.
    fn send(&mut self, stack: &mut impl Stack, id: ConnectionId) -> Option<usize> {
        if self.sent < self.head.len() {
            let bytes = stack.send(id, &mut |to| fill(to, &self.head[self.sent..]));
            self.sent += bytes;
            return Some(bytes);
        }
        let Some(body) = self.body.as_mut().filter(|body| body.offset < body.end) else {
            return Some(0);
        };
        let mut failed = false;
        let bytes = stack.send(id, &mut |to| {
            let left = usize::try_from(body.end - body.offset).unwrap_or(usize::MAX);
            let most = to.len().min(left);
            let read = body.file.read_at(&mut to[..most], body.offset).unwrap_or(0);
            failed = read == 0;
            read
        });
        body.offset += bytes as u64;
        (!failed).then_some(bytes)
    }
}
