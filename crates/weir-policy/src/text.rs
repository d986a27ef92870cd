//! Text that others chose, made safe for a terminal.

use alloc::string::String;

/// Whether a terminal would act on this character instead of showing it: control characters (C0,
/// DEL, C1), line and paragraph separators, characters that change the direction of text, and
/// characters without a width that hide in the text of others.
pub fn is_unsafe_to_print(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Returns text that others chose (names of processes and files, foreign reports) as one line, with
/// a `?` for each character that [`is_unsafe_to_print`].
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unsafe_to_print(c) { '?' } else { c }).collect()
}

/// Returns text of several lines like [`printable`], but keeps newlines and tabs.
pub fn printable_lines(text: &str) -> String {
    let shown = |c| if !matches!(c, '\n' | '\t') && is_unsafe_to_print(c) { '?' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_printable() {
        let hostile = "a\u{1b}[2J\r\n\t\u{7f}\u{9b}1m\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}z";
        assert_eq!(printable(hostile), "a?[2J?????1m?????z");
        assert_eq!(printable("Gr\u{fc}\u{df}e \u{4f60}"), "Gr\u{fc}\u{df}e \u{4f60}");
        assert_eq!(printable_lines("a\u{1b}\nb\u{85}"), "a?\nb?");
    }
}
