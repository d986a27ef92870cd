//! Texts that fit a width on the screen: there a Chinese character takes two columns, a combining
//! accent none.

use unicode_width::UnicodeWidthStr;
use weir_policy::text::is_unsafe_to_print;

/// Puts a name on one line and cuts it to `columns`.
pub fn cut(name: &str, columns: usize) -> String {
    const DOTS: &str = "...";
    // This is enough for any name that fits. A name of a thousand accents costs no more work.
    let most = columns.saturating_mul(8).saturating_add(8);
    let line = one_line(name.chars().take(most.saturating_mul(2)));
    if line.width() <= columns {
        return line;
    }
    let room = columns.saturating_sub(DOTS.len());
    let dots = &DOTS[..DOTS.len().min(columns)];
    format!("{}{dots}", clip(&line, room).trim_end())
}

/// Cuts a name to `columns`, and fills it up to them.
pub fn fit(name: &str, columns: usize) -> String {
    fill(cut(name, columns), columns)
}

/// Fills a text up to `columns`.
pub fn fill(text: String, columns: usize) -> String {
    let blanks = columns.saturating_sub(text.width());
    text + &" ".repeat(blanks)
}

/// Returns the longest start of a line that takes at most `columns`. What is in columns stays
/// in its place.
pub fn clip(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let ends = line.char_indices().map(|(at, _)| at);
    let fits = ends.take(columns.saturating_mul(8) + 8).filter(|at| line[..*at].width() <= columns);
    line[..fits.last().unwrap_or(0)].to_owned()
}

/// Turns runs of blanks and line ends into single blanks, and characters that would move the cursor or
/// change the direction of writing into question marks.
fn one_line(chars: impl Iterator<Item = char>) -> String {
    let mut line = String::new();
    for c in chars {
        match c {
            c if c.is_whitespace() => {
                if !line.ends_with(' ') && !line.is_empty() {
                    line.push(' ');
                }
            }
            c if is_unsafe_to_print(c) => line.push('?'),
            c => line.push(c),
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Breaks a sentence at blanks into lines of at most `columns`; the later ones are indented by two.
/// A number and its percent sign stay together.
pub fn wrap(sentence: &str, columns: usize) -> Vec<String> {
    const NO_BREAK: &str = "\u{a0}";
    let sentence = sentence.replace(" %", &format!("{NO_BREAK}%"));
    let options = textwrap::Options::new(columns.max(2))
        .subsequent_indent("  ")
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(&sentence, options).into_iter();
    lines.map(|line| line.replace(NO_BREAK, " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_by_their_width_on_the_screen() {
        assert_eq!(cut("grep  host7", 30), "grep host7");
        assert_eq!(cut("grep host7", 10), "grep host7");
        assert_eq!(cut("grep host7x", 10), "grep ho...");
        assert_eq!(cut("cat \u{6f22}\u{5b57}\u{6f22}\u{5b57}.txt", 11), "cat \u{6f22}\u{5b57}...");
        assert_eq!(cut("cat \u{6f22}\u{5b57}\u{6f22}\u{5b57}.txt", 12), "cat \u{6f22}\u{5b57}...");
        assert_eq!(cut("e\u{301}\u{301}te\u{301}", 3), "e\u{301}\u{301}te\u{301}");
        assert_eq!(cut("abcdef", 2), "..");
        assert_eq!(cut("abcdef", 0), "");
        for columns in 0..20 {
            let long = cut(
                &"\u{6f22}a\u{301}\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} ".repeat(50),
                columns,
            );
            assert!(long.width() <= columns, "{columns}: {long:?}");
        }
    }

    #[test]
    fn what_moves_the_cursor_or_turns_the_writing_is_defused() {
        assert_eq!(cut("a\u{1b}[31mb\nc\td", 80), "a?[31mb c d");
        assert_eq!(cut("a\u{202e}b\u{200b}c", 80), "a?b?c");
        let accents = format!("e{}", "\u{301}".repeat(100_000));
        assert!(cut(&accents, 10).len() < 1000);
    }

    #[test]
    fn sentences_break_at_blanks() {
        let lines = wrap("one two three four", 10);
        assert_eq!(lines, ["one two", "  three", "  four"]);
        assert_eq!(wrap("asleep 92 % of it", 10), ["asleep", "  92 % of", "  it"]);
        assert_eq!(wrap("use --pipe-size auto", 13), ["use", "  --pipe-size", "  auto"]);
    }
}
