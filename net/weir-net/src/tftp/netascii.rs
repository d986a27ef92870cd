//! Netascii (RFC 764): LF travels as CR LF, and CR as CR NUL.

/// Writes text as netascii.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    /// The second byte of a pair whose first one ended the last block.
    owed: Option<u8>,
}

impl Encoder {
    /// Encodes as much of `from` as has room within `room` bytes of `to`. Returns how many bytes of
    /// `from` were taken.
    pub fn encode(&mut self, from: &[u8], to: &mut Vec<u8>, room: usize) -> usize {
        let end = to.len() + room;
        if room > 0
            && let Some(byte) = self.owed.take()
        {
            to.push(byte);
        }
        for (taken, byte) in from.iter().enumerate() {
            if to.len() == end {
                return taken;
            }
            let second = match byte {
                b'\n' => b'\n',
                b'\r' => 0,
                _ => {
                    to.push(*byte);
                    continue;
                }
            };
            to.push(b'\r');
            if to.len() == end {
                self.owed = Some(second);
                return taken + 1;
            }
            to.push(second);
        }
        from.len()
    }
}

/// Reads text from netascii.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    after_cr: bool,
}

impl Decoder {
    /// Decodes `from` to the end of `to`. A CR before anything but LF and NUL stays as it is.
    pub fn decode(&mut self, from: &[u8], to: &mut Vec<u8>) {
        for byte in from {
            match (std::mem::take(&mut self.after_cr), byte) {
                (true, b'\n') => to.push(b'\n'),
                (true, 0) => to.push(b'\r'),
                (before, b'\r') => {
                    if before {
                        to.push(b'\r');
                    }
                    self.after_cr = true;
                }
                (true, other) => to.extend_from_slice(&[b'\r', *other]),
                (false, other) => to.push(*other),
            }
        }
    }

    /// Writes a CR with which the text ended.
    pub fn finish(&mut self, to: &mut Vec<u8>) {
        if std::mem::take(&mut self.after_cr) {
            to.push(b'\r');
        }
    }
}
