//! The assigned rows of the table, and their names.

use super::layout::{
    FIRST, FIXED, KIND_SPAN, KINDS_AT, NAME_BYTES, NAMES_AT, ROWS, SUBROUTINES_LOST_AT,
};
use super::table::TABLE;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

static GIVEN: AtomicUsize = AtomicUsize::new(FIRST);
/// Their kinds and names, kept beside the table for a forked child, whose table is empty.
static NAMES: [OnceLock<(&'static str, u64)>; ROWS] = [const { OnceLock::new() }; ROWS];

/// Stands for a row that could not be assigned.
const NO_ROW: u32 = u32::MAX;

/// Assigns a row to a name, and keeps it in `place`; `None` when there are too many.
pub fn row_of(place: &AtomicU32, name: &'static str, kind: u64) -> Option<u32> {
    match place.load(Ordering::Relaxed) {
        0 => give_row(place, name, kind),
        NO_ROW => None,
        row => Some(row),
    }
}

#[cold]
fn give_row(place: &AtomicU32, name: &'static str, kind: u64) -> Option<u32> {
    let next = |given: usize| if given < ROWS { Some(given + 1) } else { None };
    let row = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let number = row.map_or(NO_ROW, |row| row as u32);
    // Two threads may assign at once: the row of the second stays empty.
    match place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(NO_ROW) => return None,
        Err(other) => return Some(other),
    }
    let Ok(row) = row else {
        TABLE.word(SUBROUTINES_LOST_AT).fetch_add(1, Ordering::Relaxed);
        return None;
    };
    let _ = NAMES[row].set((name, kind));
    write_name(row, name, kind);
    Some(number)
}

/// Writes the names of all rows into a table that may be new.
pub fn write_names() {
    for (row, name) in FIXED.iter().enumerate() {
        write_name(row, name, KIND_SPAN);
    }
    for (row, entry) in NAMES.iter().enumerate() {
        if let Some((name, kind)) = entry.get() {
            write_name(row, name, *kind);
        }
    }
}

fn write_name(row: usize, name: &str, kind: u64) {
    write_text(NAMES_AT + row * NAME_BYTES / 8, name);
    // Release: a reader that sees the kind sees the name.
    TABLE.word(KINDS_AT + row).store(kind, Ordering::Release);
}

/// Writes a text, cut to [`NAME_BYTES`] bytes.
pub fn write_text(at: usize, text: &str) {
    let mut bytes = [0; NAME_BYTES];
    let mut length = 0;
    for c in weir_policy::text::printable(text).chars() {
        if length + c.len_utf8() > NAME_BYTES {
            break;
        }
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    for (index, eight) in bytes.as_chunks().0.iter().enumerate() {
        TABLE.word(at + index).store(u64::from_ne_bytes(*eight), Ordering::Relaxed);
    }
}
