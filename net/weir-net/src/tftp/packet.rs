//! Packets of TFTP: a checked view of any bytes, and a writer for each kind.

/// Bytes before the data of a block.
pub const DATA_HEADER_BYTES: usize = 4;
/// Longest request and acknowledgement of options (RFC 2347).
pub const MOST_REQUEST_BYTES: usize = 512;
/// Most bytes of an error's text that are written, and that count of one that came.
const MOST_ERROR_TEXT_BYTES: usize = 200;

const READ: u16 = 1;
const WRITE: u16 = 2;
const DATA: u16 = 3;
const ACK: u16 = 4;
const ERROR: u16 = 5;
const OPTION_ACK: u16 = 6;

/// Codes of errors (RFC 1350, RFC 2347).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ErrorCode {
    /// Not defined; see the text.
    Other = 0,
    /// There is no such file.
    NotFound = 1,
    /// The file may not be read or written.
    Access = 2,
    /// There is no room for the file.
    DiskFull = 3,
    /// The packet is not one of the protocol.
    Illegal = 4,
    /// The packet is from another port than the transfer's.
    UnknownId = 5,
    /// The file is there already.
    Exists = 6,
    /// The options are not acceptable.
    Options = 8,
}

/// How the bytes of a file travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As they are.
    Octet,
    /// As text: a line ends with CR LF, and CR alone is CR NUL.
    Netascii,
}

impl Mode {
    /// Returns its name in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Octet => "octet",
            Mode::Netascii => "netascii",
        }
    }
}

/// Options with values that their documents allow; others are left out on reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TftpOptions {
    /// Bytes of a block: 8 to 65,464.
    pub block_bytes: Option<u16>,
    /// Seconds until a packet is sent again: 1 to 255.
    pub timeout_s: Option<u8>,
    /// Bytes of the file; 0 in a request to read.
    pub size_bytes: Option<u64>,
    /// Blocks that are sent before an acknowledgement: 1 to 65,535.
    pub window: Option<u16>,
}

impl TftpOptions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == TftpOptions::default()
    }

    fn take(&mut self, name: &[u8], value: &[u8]) {
        let Some(value) = number(value) else { return };
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        let word = u16::try_from(value).ok();
        // RFC 2347: an option appears once. The first counts.
        if is("blksize") {
            let word = word.filter(|bytes| (8..=65_464).contains(bytes));
            self.block_bytes = self.block_bytes.or(word);
        } else if is("timeout") {
            let seconds = u8::try_from(value).ok().filter(|seconds| *seconds > 0);
            self.timeout_s = self.timeout_s.or(seconds);
        } else if is("tsize") {
            self.size_bytes = self.size_bytes.or(Some(value));
        } else if is("windowsize") {
            self.window = self.window.or(word.filter(|blocks| *blocks > 0));
        }
    }

    fn put(&self, to: &mut Vec<u8>) {
        let options = [
            ("blksize", self.block_bytes.map(u64::from)),
            ("timeout", self.timeout_s.map(u64::from)),
            ("tsize", self.size_bytes),
            ("windowsize", self.window.map(u64::from)),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                put_text(to, name);
                put_text(to, &value.to_string());
            }
        }
    }
}

/// A request to read or to write a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TftpRequest<'a> {
    /// Whether the client wants to write.
    pub writes: bool,
    /// The name of the file: not empty, and without NUL.
    pub name: &'a [u8],
    /// How its bytes travel.
    pub mode: Mode,
    /// What the client proposes.
    pub options: TftpOptions,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TftpPacket<'a> {
    /// A request.
    Request(TftpRequest<'a>),
    /// A block of the file.
    Data {
        /// Its number, from 1.
        block: u16,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// An acknowledgement of all blocks up to this one.
    Ack {
        /// The number.
        block: u16,
    },
    /// The end of a transfer.
    Error {
        /// The code, see [`ErrorCode`].
        code: u16,
        /// What it says, in no particular encoding.
        text: &'a [u8],
    },
    /// The options that the server accepts.
    OptionAck(TftpOptions),
}

impl<'a> TftpPacket<'a> {
    /// Parses the payload of a datagram; `None` if it is not a packet of TFTP.
    pub fn check(bytes: &'a [u8]) -> Option<TftpPacket<'a>> {
        let (kind, rest) = bytes.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*kind) {
            READ => request(rest, false),
            WRITE => request(rest, true),
            DATA => {
                let (block, bytes) = rest.split_first_chunk::<2>()?;
                Some(TftpPacket::Data { block: u16::from_be_bytes(*block), bytes })
            }
            ACK => {
                // Some clients send more bytes than the two: these are passed over.
                let (block, _) = rest.split_first_chunk::<2>()?;
                Some(TftpPacket::Ack { block: u16::from_be_bytes(*block) })
            }
            ERROR => {
                let (code, text) = rest.split_first_chunk::<2>()?;
                let text = &text[..text.len().min(MOST_ERROR_TEXT_BYTES)];
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                Some(TftpPacket::Error { code: u16::from_be_bytes(*code), text: &text[..end] })
            }
            OPTION_ACK => Some(TftpPacket::OptionAck(options(rest)?)),
            _ => None,
        }
    }
}

fn request(rest: &[u8], writes: bool) -> Option<TftpPacket<'_>> {
    let (name, rest) = text(rest)?;
    let (mode, rest) = text(rest)?;
    let mode = match mode {
        mode if mode.eq_ignore_ascii_case(b"octet") => Mode::Octet,
        mode if mode.eq_ignore_ascii_case(b"netascii") => Mode::Netascii,
        _ => return None,
    };
    if name.is_empty() || name.len() > MOST_REQUEST_BYTES {
        return None;
    }
    // What follows the mode may be padding: options that cannot be read are none.
    let options = options(rest).unwrap_or_default();
    Some(TftpPacket::Request(TftpRequest { writes, name, mode, options }))
}

fn options(mut rest: &[u8]) -> Option<TftpOptions> {
    let mut options = TftpOptions::default();
    while !rest.is_empty() {
        let (name, after) = text(rest)?;
        let (value, after) = text(after)?;
        options.take(name, value);
        rest = after;
    }
    Some(options)
}

/// Splits off the bytes before the next NUL.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(text.as_bytes());
    to.push(0);
}

/// Writes a request over what `to` holds. Returns `false` where it is longer than a request may be,
/// or the name cannot be sent.
#[must_use]
pub fn put_request(to: &mut Vec<u8>, request: &TftpRequest<'_>) -> bool {
    to.clear();
    let kind = if request.writes { WRITE } else { READ };
    to.extend_from_slice(&kind.to_be_bytes());
    to.extend_from_slice(request.name);
    to.push(0);
    put_text(to, request.mode.as_str());
    request.options.put(to);
    to.len() <= MOST_REQUEST_BYTES && !request.name.is_empty() && !request.name.contains(&0)
}

/// Writes the acknowledgement of options over what `to` holds.
pub fn put_option_ack(to: &mut Vec<u8>, options: &TftpOptions) {
    to.clear();
    to.extend_from_slice(&OPTION_ACK.to_be_bytes());
    options.put(to);
}

/// Returns the header of a block.
pub fn data_header(block: u16) -> [u8; DATA_HEADER_BYTES] {
    let ([a, b], [c, d]) = (DATA.to_be_bytes(), block.to_be_bytes());
    [a, b, c, d]
}

/// Writes an acknowledgement over what `to` holds.
pub fn put_ack(to: &mut Vec<u8>, block: u16) {
    put_words(to, ACK, block);
}

/// Writes an error over what `to` holds.
pub fn put_error(to: &mut Vec<u8>, code: ErrorCode, text: &str) {
    put_words(to, ERROR, code as u16);
    let printable = text.bytes().filter(|byte| (b' '..=b'~').contains(byte));
    to.extend(printable.take(MOST_ERROR_TEXT_BYTES));
    to.push(0);
}

fn put_words(to: &mut Vec<u8>, kind: u16, value: u16) {
    to.clear();
    to.extend_from_slice(&kind.to_be_bytes());
    to.extend_from_slice(&value.to_be_bytes());
}
