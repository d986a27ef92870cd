//! The tables of the report as tables of a page: the same columns, under longer names.

use crate::report::layout::Grid;
use maud::Markup;
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{Cell, Column, Table, nothing};

/// Returns a table, whose first column has this name; nothing for a table without rows.
pub fn table(first: &'static str, grid: &Grid) -> Markup {
    if grid.names.is_empty() {
        return nothing();
    }
    let head = |title, words| if words { Words(spoken(title)) } else { Figures(spoken(title)) };
    let columns: Vec<Column> = std::iter::once(Words(first))
        .chain(grid.columns.iter().map(|column| head(column.title, column.words)))
        .collect();
    let mut table = Table::new(&columns);
    for (row, name) in grid.names.iter().enumerate() {
        let name = format!("{}{}{}", name.before, name.name, name.after);
        let cells = grid.columns.iter().map(|column| Cell::text(&column.cells[row]));
        table.row(std::iter::once(Cell::text(name.trim_start())).chain(cells));
    }
    table.finish()
}

/// The name of a column where there is room for it.
fn spoken(title: &'static str) -> &'static str {
    match title {
        "cpu" => "on a CPU",
        "runq" => "waits for a CPU",
        "in" => "for input",
        "out" => "for output",
        "sys" => "system",
        "fill" => "mean fill",
        "most" => "largest fill",
        "full" => "time full",
        "empty" => "time empty",
        title => title,
    }
}
