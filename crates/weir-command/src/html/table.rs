//! Tables: columns of words or figures, and rows of cells that are escaped.

use super::shown;
use std::fmt::Write;

/// A column, by the name at its head.
#[derive(Clone, Copy)]
pub enum Column {
    /// Of words, which begin at its left.
    Words(&'static str),
    /// Of figures, which end at its right.
    Figures(&'static str),
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Words(name) | Column::Figures(name) => name,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Column::Words(_) => "",
            Column::Figures(_) => "r",
        }
    }
}

/// A cell below the head.
pub struct Cell {
    html: String,
    class: &'static str,
}

impl Cell {
    /// Creates a cell that shows a text, which others may have chosen.
    pub fn text(text: impl AsRef<str>) -> Cell {
        Cell::html(shown(text.as_ref()))
    }

    /// Creates a cell of HTML.
    pub fn html(html: String) -> Cell {
        Cell { html, class: "" }
    }

    /// Gives it a class besides its column's.
    pub fn with_class(self, class: &'static str) -> Cell {
        Cell { class, ..self }
    }
}

/// A table that grows by rows; it scrolls sideways if the page is too narrow.
pub struct Table<'a> {
    columns: &'a [Column],
    html: String,
}

impl<'a> Table<'a> {
    /// Creates a table without rows. If no column has a name, it has no head.
    pub fn new(columns: &'a [Column]) -> Table<'a> {
        let mut html = String::from("<div class=\"wide\"><table>\n");
        if columns.iter().any(|column| !column.name().is_empty()) {
            html += "<thead><tr>";
            for column in columns {
                write_cell(&mut html, "th", column.class(), column.name());
            }
            html += "</tr></thead>\n";
        }
        html += "<tbody>\n";
        Table { columns, html }
    }

    /// Adds a row, a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.html += "<tr>";
        self.end_row(cells);
    }

    /// Adds a row that shows a text at the pointer.
    pub fn titled_row(&mut self, title: &str, cells: impl IntoIterator<Item = Cell>) {
        let _ = write!(self.html, "<tr title=\"{}\">", shown(title));
        self.end_row(cells);
    }

    fn end_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        for (column, cell) in self.columns.iter().zip(cells) {
            let classes = format!("{} {}", column.class(), cell.class);
            write_cell(&mut self.html, "td", classes.trim(), &cell.html);
        }
        self.html += "</tr>\n";
    }

    /// Returns its HTML.
    pub fn finish(self) -> String {
        self.html + "</tbody></table></div>\n"
    }
}

fn write_cell(html: &mut String, tag: &str, class: &str, inside: &str) {
    let _ = match class {
        "" => write!(html, "<{tag}>{inside}</{tag}>"),
        _ => write!(html, "<{tag} class=\"{class}\">{inside}</{tag}>"),
    };
}

#[cfg(test)]
mod tests {
    use super::Column::{Figures, Words};
    use super::*;

    #[test]
    fn texts_are_escaped_and_classes_are_those_of_column_and_cell() {
        let mut table = Table::new(&[Words("who"), Figures("n")]);
        table.titled_row("a \"b\"", [Cell::text("<i>\u{1b}"), Cell::text("7").with_class("n")]);
        table.row([Cell::html("<b>x</b>".into()).with_class("bar"), Cell::text("")]);
        let html = "<div class=\"wide\"><table>\n\
            <thead><tr><th>who</th><th class=\"r\">n</th></tr></thead>\n<tbody>\n\
            <tr title=\"a &quot;b&quot;\"><td>&lt;i&gt;?</td><td class=\"r n\">7</td></tr>\n\
            <tr><td class=\"bar\"><b>x</b></td><td class=\"r\"></td></tr>\n\
            </tbody></table></div>\n";
        assert_eq!(table.finish(), html);
    }

    #[test]
    fn columns_without_names_have_no_head() {
        let mut table = Table::new(&[Words(""), Words("")]);
        table.row(["kernel", "6.1"].map(Cell::text));
        assert!(table.finish().contains("<table>\n<tbody>\n<tr><td>kernel</td>"));
    }
}
