//! Tables that fit the terminal: the least important columns are left out first, then names are cut. No
//! row is broken.

use unicode_width::UnicodeWidthStr;
use weir_command::output::aligned;
use weir_command::widths::{clip, cut};

/// The blanks between two columns of a table.
const GAP: usize = 2;
/// Columns are left out until names have a third of the width, within these bounds.
const NAME_COLUMNS: std::ops::RangeInclusive<usize> = 10..=40;

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
        let titles = std::iter::once(self.title).chain(self.columns.iter().map(|c| c.title));
        let figures = (1..).zip(&self.columns).filter(|(_, column)| !column.words);
        let mut table = aligned(titles.collect::<Vec<_>>(), figures.map(|(position, _)| position));
        for (row, name) in self.names.iter().enumerate() {
            let figures = self.columns.iter().map(|column| column.cells[row].clone());
            table.add_row(std::iter::once(name.cut_to(names)).chain(figures));
        }
        for (position, column) in table.column_iter_mut().enumerate() {
            column.set_padding((if position > 0 { GAP as u16 } else { 0 }, 0));
        }
        table.lines().map(|line| clip(line.trim_end(), width)).collect()
    }
}

fn name_columns_min(width: usize) -> usize {
    (width / 3).clamp(*NAME_COLUMNS.start(), *NAME_COLUMNS.end())
}
