//! Tables: columns of words or figures, and rows of cells that are escaped.

use maud::{Markup, html};
use weir_policy::text::printable;

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
    inside: Markup,
    class: &'static str,
}

impl Cell {
    /// Creates a cell that shows a text, which others may have chosen.
    pub fn text(text: impl AsRef<str>) -> Cell {
        Cell::markup(html! { (printable(text.as_ref())) })
    }

    /// Creates a cell of markup.
    pub fn markup(inside: Markup) -> Cell {
        Cell { inside, class: "" }
    }

    /// Gives it a class besides its column's.
    pub fn with_class(self, class: &'static str) -> Cell {
        Cell { class, ..self }
    }
}

/// A table that grows by rows; it scrolls sideways if the page is too narrow.
pub struct Table<'a> {
    columns: &'a [Column],
    rows: Vec<Markup>,
}

impl<'a> Table<'a> {
    /// Creates a table without rows. If no column has a name, it has no head.
    pub fn new(columns: &'a [Column]) -> Table<'a> {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row, a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row = html! { tr { (self.cells(cells)) } };
        self.rows.push(row);
    }

    /// Adds a row that shows a text at the pointer.
    pub fn titled_row(&mut self, title: &str, cells: impl IntoIterator<Item = Cell>) {
        let row = html! { tr title=(printable(title)) { (self.cells(cells)) } };
        self.rows.push(row);
    }

    fn cells(&self, cells: impl IntoIterator<Item = Cell>) -> Markup {
        html! {
            @for (column, cell) in self.columns.iter().zip(cells) {
                @let class = classes(column.class(), cell.class);
                td class=[class] { (cell.inside) }
            }
        }
    }

    /// Returns its markup.
    pub fn finish(self) -> Markup {
        let has_head = self.columns.iter().any(|column| !column.name().is_empty());
        html! {
            div.wide {
                table {
                    @if has_head {
                        thead {
                            tr {
                                @for column in self.columns {
                                    th class=[classes(column.class(), "")] { (column.name()) }
                                }
                            }
                        }
                    }
                    tbody { @for row in &self.rows { (row) } }
                }
            }
        }
    }
}

fn classes(of_column: &str, of_cell: &str) -> Option<String> {
    let classes = format!("{of_column} {of_cell}");
    Some(classes.trim().to_owned()).filter(|classes| !classes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::Column::{Figures, Words};
    use super::*;

    #[test]
    fn texts_are_escaped_and_classes_are_those_of_column_and_cell() {
        let mut table = Table::new(&[Words("who"), Figures("n")]);
        table.titled_row("a \"b\"", [Cell::text("<i>\u{1b}"), Cell::text("7").with_class("n")]);
        table.row([Cell::markup(html! { b { "x" } }).with_class("bar"), Cell::text("")]);
        let html = "<div class=\"wide\"><table>\
            <thead><tr><th>who</th><th class=\"r\">n</th></tr></thead><tbody>\
            <tr title=\"a &quot;b&quot;\"><td>&lt;i&gt;?</td><td class=\"r n\">7</td></tr>\
            <tr><td class=\"bar\"><b>x</b></td><td class=\"r\"></td></tr>\
            </tbody></table></div>";
        assert_eq!(table.finish().into_string(), html);
    }

    #[test]
    fn columns_without_names_have_no_head() {
        let mut table = Table::new(&[Words(""), Words("")]);
        table.row(["kernel", "6.1"].map(Cell::text));
        let html = table.finish().into_string();
        assert!(html.contains("<table><tbody><tr><td>kernel</td>"), "{html}");
    }
}
