//! What a person does on the terminal: keys and the mouse, as crossterm reads them.

use crossterm::event::{self, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};
use std::io;
use std::time::Duration;

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
    Escape,
    /// A function key.
    Function(u8),
    /// The first button was pressed at this column and row, counted from 0.
    Click(usize, usize),
    WheelUp,
    WheelDown,
}

/// Returns the events that have come; does not wait for any.
pub fn pending() -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    while event::poll(Duration::ZERO)? {
        events.extend(read(&event::read()?));
    }
    Ok(events)
}

fn read(event: &event::Event) -> Option<Event> {
    match event {
        event::Event::Key(key) => pressed(*key),
        event::Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                Some(Event::Click(mouse.column.into(), mouse.row.into()))
            }
            MouseEventKind::ScrollUp => Some(Event::WheelUp),
            MouseEventKind::ScrollDown => Some(Event::WheelDown),
            _ => None,
        },
        _ => None,
    }
}

fn pressed(key: KeyEvent) -> Option<Event> {
    Some(match key.code {
        KeyCode::Char(c @ 'a'..='z') if key.modifiers == KeyModifiers::CONTROL => {
            Event::Char(char::from(c as u8 & 0x1f))
        }
        KeyCode::Char(c) => Event::Char(c),
        KeyCode::Enter => Event::Char('\r'),
        KeyCode::Backspace => Event::Char('\u{7f}'),
        KeyCode::Up => Event::Up,
        KeyCode::Down => Event::Down,
        KeyCode::PageUp => Event::PageUp,
        KeyCode::PageDown => Event::PageDown,
        KeyCode::Home => Event::Home,
        KeyCode::End => Event::End,
        KeyCode::Esc => Event::Escape,
        KeyCode::F(number) => Event::Function(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::MouseEvent;

    #[test]
    fn keys_and_the_mouse() {
        let key = |code, modifiers| read(&event::Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| key(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Char('q')), Some(Event::Char('q')));
        assert_eq!(key(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Event::Char('G')));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Event::Char('\u{3}')));
        assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(Event::Char('\u{1a}')));
        assert_eq!(plain(KeyCode::Enter), Some(Event::Char('\r')));
        assert_eq!(plain(KeyCode::F(10)), Some(Event::Function(10)));
        assert_eq!(plain(KeyCode::Insert), None);
        let mouse = |kind| {
            let modifiers = KeyModifiers::NONE;
            read(&event::Event::Mouse(MouseEvent { kind, column: 4, row: 2, modifiers }))
        };
        assert_eq!(mouse(MouseEventKind::Down(MouseButton::Left)), Some(Event::Click(4, 2)));
        assert_eq!(mouse(MouseEventKind::ScrollUp), Some(Event::WheelUp));
        assert_eq!(mouse(MouseEventKind::Up(MouseButton::Left)), None);
    }
}
