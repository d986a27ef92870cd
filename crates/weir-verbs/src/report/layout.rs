//! Tables that fit the terminal: the least important columns are left out first, then names are cut. No
//! row is broken.
//!
//! Widths are those on the screen: a Chinese character takes two columns, a combining accent none.

use comfy_table::{Cell, CellAlignment, Table};
use unicode_width::UnicodeWidthStr;
use weir_policy::text::is_unsafe_to_print;

/// The blanks between two columns of a table.
const GAP: usize = 2;
/// Columns are left out until names have a quarter of the width, within these bounds.
const NAME_COLUMNS: std::ops::RangeInclusive<usize> = 10..=28;

/// The first column of a row: a name that may be cut, and what stands around it.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// The text before the name, such as the number of a stage.
    pub before: String,
    /// The name.
    pub name: String,
    /// The text after the name.
    pub after: String,
}

impl Name {
    fn cut_to(&self, columns: usize) -> String {
        let room = columns.saturating_sub(self.before.width());
        // The text after the name says nothing if the name cannot be read.
        let least = self.name.width().min(*NAME_COLUMNS.start()) + self.after.width();
        let after = if room >= least { self.after.as_str() } else { "" };
        let name = cut(&self.name, room.saturating_sub(after.width()));
        format!("{}{name}{after}", self.before)
    }
}

/// One column of figures.
#[derive(Clone, Debug)]
pub struct Column {
    /// The head of the column.
    pub title: &'static str,
    /// Whether the column has words, not figures.
    pub words: bool,
    /// The cells, one for each row.
    pub cells: Vec<String>,
}

impl Column {
    fn columns(&self) -> usize {
        let widest = self.cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
        widest.max(self.title.width()) + GAP
    }
}

/// A table that has not been fitted to a width yet.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The head of the first column.
    pub title: &'static str,
    /// The first cell of each row.
    pub names: Vec<Name>,
    /// The other columns.
    pub columns: Vec<Column>,
}

impl Grid {
    /// Leaves out columns, in the order of `drops`, until the rest fits with names that can be
    /// read.
    pub fn fit(&mut self, width: usize, drops: &[&str]) {
        let least = self.name_columns(usize::MAX).min(name_columns_min(width));
        for title in drops {
            if self.figure_columns() + least <= width {
                return;
            }
            self.columns.retain(|column| column.title != *title);
        }
    }

    /// Returns how wide names may be in a table of this width.
    pub fn name_columns(&self, width: usize) -> usize {
        let full = |name: &Name| name.cut_to(usize::MAX).width();
        let longest = self.names.iter().map(full).max().unwrap_or(0).max(self.title.width());
        longest.min(width.saturating_sub(self.figure_columns()))
    }

    fn figure_columns(&self) -> usize {
        self.columns.iter().map(Column::columns).sum()
    }

    /// Returns the lines of the table, of at most `width` columns; names have at most `name_width`.
    pub fn lines(&self, names: usize, width: usize) -> Vec<String> {
        let mut table = Table::new();
        let titles = std::iter::once(self.title).chain(self.columns.iter().map(|c| c.title));
        table.load_style(comfy_table::presets::NOTHING).set_header(titles.collect::<Vec<_>>());
        for (row, name) in self.names.iter().enumerate() {
            let figures = self.columns.iter().map(|column| column.cells[row].clone());
            let row = std::iter::once(name.cut_to(names)).chain(figures);
            table.add_row(row.map(Cell::new));
        }
        let words = std::iter::once(true).chain(self.columns.iter().map(|column| column.words));
        for (position, words) in words.enumerate() {
            let Some(column) = table.column_mut(position) else { continue };
            let side = if words { CellAlignment::Left } else { CellAlignment::Right };
            column.set_cell_alignment(side);
            column.set_padding((if position > 0 { GAP as u16 } else { 0 }, 0));
        }
        table.lines().map(|line| clip(line.trim_end(), width)).collect()
    }
}

fn name_columns_min(width: usize) -> usize {
    (width / 4).clamp(*NAME_COLUMNS.start(), *NAME_COLUMNS.end())
}

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

/// Returns the longest start of a line that takes at most `columns`.
fn clip(line: &str, columns: usize) -> String {
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
