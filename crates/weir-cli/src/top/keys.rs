//! What a person does on the terminal: keys and the mouse, from the bytes that a terminal sends.

/// A key or a mouse button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A character, also a control character.
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Left,
    Right,
    Escape,
    /// A function key.
    Function(u8),
    /// The first button was pressed at this column and row, counted from 0.
    Click(usize, usize),
    WheelUp,
    WheelDown,
}

/// Turns bytes into events. A sequence may come in pieces.
#[derive(Debug, Default)]
pub struct Keys {
    left: Vec<u8>,
}

const ESCAPE: u8 = 0x1b;
/// A longer sequence is none.
const MOST_BYTES: usize = 32;

/// What is at the beginning of the bytes.
enum Found {
    /// An event, if the sequence is known, and its length.
    Whole(Option<Event>, usize),
    /// The beginning of a sequence.
    Part,
}

impl Keys {
    /// Takes bytes that came and returns the events in them.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.left.extend_from_slice(bytes);
        let (mut events, mut at) = (Vec::new(), 0);
        while at < self.left.len() {
            match first(&self.left[at..]) {
                Found::Whole(event, length) => {
                    events.extend(event);
                    at += length;
                }
                Found::Part => break,
            }
        }
        self.left.drain(..at);
        if self.left.len() > MOST_BYTES {
            self.left.clear();
        }
        events
    }

    /// Whether the beginning of a sequence is kept.
    pub fn is_open(&self) -> bool {
        !self.left.is_empty()
    }

    /// Says that nothing followed for a while: an escape alone is the key.
    pub fn settle(&mut self) -> Option<Event> {
        let left = std::mem::take(&mut self.left);
        (left.first() == Some(&ESCAPE)).then_some(Event::Escape)
    }
}

fn first(bytes: &[u8]) -> Found {
    match bytes {
        [ESCAPE] | [ESCAPE, b'['] | [ESCAPE, b'O'] => Found::Part,
        [ESCAPE, b'[', rest @ ..] => sequence(rest),
        [ESCAPE, b'O', key, ..] => Found::Whole(letter(*key), 3),
        [ESCAPE, ..] => Found::Whole(Some(Event::Escape), 1),
        _ => character(bytes),
    }
}

/// A sequence after `ESC [` (ECMA-48, 5.4): parameters up to a final byte.
fn sequence(rest: &[u8]) -> Found {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        let is_none = rest.iter().any(|byte| !(0x20..0x40).contains(byte));
        return if is_none { Found::Whole(None, 2) } else { Found::Part };
    };
    let parameters = String::from_utf8_lossy(&rest[..end]);
    let event = match (rest[end], parameters.strip_prefix('<')) {
        (b'M', Some(mouse)) => mouse_event(mouse),
        (b'~', None) => parameters.split(';').next().and_then(numbered),
        (key, None) => letter(key),
        _ => None,
    };
    Found::Whole(event, 2 + end + 1)
}

fn letter(key: u8) -> Option<Event> {
    Some(match key {
        b'A' => Event::Up,
        b'B' => Event::Down,
        b'C' => Event::Right,
        b'D' => Event::Left,
        b'H' => Event::Home,
        b'F' => Event::End,
        b'P'..=b'S' => Event::Function(key - b'P' + 1),
        _ => return None,
    })
}

/// A key that xterm numbers.
fn numbered(number: &str) -> Option<Event> {
    Some(match number.parse().ok()? {
        1 | 7 => Event::Home,
        4 | 8 => Event::End,
        5 => Event::PageUp,
        6 => Event::PageDown,
        key @ 11..=15 => Event::Function(key - 10),
        key @ 17..=21 => Event::Function(key - 11),
        _ => return None,
    })
}

/// A report of the mouse: button, column, row, from 1.
fn mouse_event(text: &str) -> Option<Event> {
    let mut numbers = text.split(';').map(|number| number.parse::<usize>().ok());
    let (button, x, y) = (numbers.next()??, numbers.next()??, numbers.next()??);
    match button {
        0 => Some(Event::Click(x.checked_sub(1)?, y.checked_sub(1)?)),
        64 => Some(Event::WheelUp),
        65 => Some(Event::WheelDown),
        _ => None,
    }
}

fn character(bytes: &[u8]) -> Found {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let Some(whole) = bytes.get(..length) else { return Found::Part };
    match std::str::from_utf8(whole) {
        Ok(text) => Found::Whole(text.chars().next().map(Event::Char), length),
        Err(_) => Found::Whole(None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_and_the_mouse() {
        let take = |bytes: &[u8]| Keys::default().take(bytes);
        assert_eq!(take(b"q\x03"), [Event::Char('q'), Event::Char('\u{3}')]);
        assert_eq!(take(b"\x1b[A\x1bOB\x1b[5~"), [Event::Up, Event::Down, Event::PageUp]);
        assert_eq!(take(b"\x1bOP\x1b[17~\x1b[21~"), [1, 6, 10].map(Event::Function));
        assert_eq!(take(b"\x1b[<0;5;3M\x1b[<0;5;3m"), [Event::Click(4, 2)]);
        assert_eq!(take(b"\x1b[<64;5;3M\x1b[<65;1;1M"), [Event::WheelUp, Event::WheelDown]);
        assert_eq!(take("\u{e4}".as_bytes()), [Event::Char('\u{e4}')]);
        assert_eq!(take(b"\x1b[<0;0;0M\x1b[99999999999~\xffx"), [Event::Char('x')]);
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut keys = Keys::default();
        assert_eq!(keys.take(b"\x1b"), []);
        assert!(keys.is_open());
        assert_eq!(keys.take(b"["), []);
        assert_eq!(keys.take(b"B"), [Event::Down]);
        assert_eq!(keys.take(b"\x1b"), []);
        assert_eq!(keys.settle(), Some(Event::Escape));
        assert!(!keys.is_open());
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_much(pieces: Vec<Vec<u8>>) {
            let mut keys = Keys::default();
            for piece in pieces {
                keys.take(&piece);
                prop_assert!(keys.left.len() <= MOST_BYTES);
            }
        }
    }
}
