//! The published figures of the four reports, from the tables in `reports/data`.

/// A table: the names of its columns, and its rows as texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The names of the columns.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<&'static str>>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// The first column.
    pub name: &'static str,
    /// The other columns; `None` where the report has no number.
    pub figures: Vec<Option<f64>>,
}

/// Joy 1980: the parts of the time of a trivial system call on the old system, in microseconds.
pub const JOY_SYSCALL: &str = include_str!("../../data/joy_1980_syscall_vax780.csv");
/// Joy 1980: 4-byte packets per second to self, one way and two ways.
pub const JOY_IPC: &str = include_str!("../../data/joy_1980_ipc_vax780.csv");
/// Joy 1980: the parts of a context switch, in microseconds.
pub const JOY_SWITCH: &str = include_str!("../../data/joy_1980_switch_vax780.csv");
/// Kashtan 1980: exchanges and switches a second, and costs of VMS.
pub const KASHTAN: &str = include_str!("../../data/kashtan_1980_rates_vax780.csv");
/// Joy 1980: Kashtan's paging benchmarks by system, in seconds.
pub const JOY_PAGING: &str = include_str!("../../data/joy_1980_paging_vax780.csv");
/// BBN 1978, tables 1 and 2: real and system time of 1000 blocks through a pipe, standard and
/// improved.
pub const BBN_PIPE: &str = include_str!("../../data/bbn_1978_pipe_1140.csv");
/// BBN 1978, table 3: real, user and system time of 1000 blocks through a port, standard and
/// improved.
pub const BBN_PORT: &str = include_str!("../../data/bbn_1978_port_1140.csv");
/// BBN 1978, table 4: a bare pipe beside a bare port.
pub const BBN_BARE: &str = include_str!("../../data/bbn_1978_port_bare_1140.csv");
/// Franke 2001: improvement over pipes of 4 KiB, in percent.
pub const FRANKE: &str = include_str!("../../data/franke_2001_2way.csv");
/// Allen: an echo by a daemon at user level, and its packet driver, in milliseconds.
pub const ALLEN: &str = include_str!("../../data/allen_mit_icmp_1145.csv");

impl Published {
    /// Reads a table: lines that begin with '#' are comments, and the first other line names the
    /// columns.
    pub fn read(text: &'static str) -> Published {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let columns = lines.next().unwrap_or("").split(',').collect();
        Published { columns, rows: lines.map(|line| line.split(',').collect()).collect() }
    }

    /// Returns a figure by its row and the name of its column.
    pub fn figure(&self, row: usize, column: &str) -> Option<f64> {
        let index = self.columns.iter().position(|name| *name == column)?;
        self.rows.get(row)?.get(index)?.parse().ok()
    }

    /// Returns a figure by the row's first column, and the name of its column.
    pub fn named(&self, row: &str, column: &str) -> Option<f64> {
        let index = self.rows.iter().position(|found| found.first() == Some(&row))?;
        self.figure(index, column)
    }
}

/// Reads the rows of a table with their figures.
pub fn lines(table: &'static str) -> Vec<PublishedRow> {
    let rows = Published::read(table).rows.into_iter();
    rows.map(|row| PublishedRow {
        name: row.first().copied().unwrap_or(""),
        figures: row.iter().skip(1).map(|figure| figure.parse().ok()).collect(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_call_add_up_as_published() {
        let parts: f64 = lines(JOY_SYSCALL).iter().filter_map(|line| line.figures[0]).sum();
        assert!((parts - 380.0).abs() < 1e-9, "{parts}");
        assert_eq!(lines(JOY_IPC).len(), 2);
        assert!(lines(JOY_SWITCH).len() > 4);
    }

    #[test]
    fn every_table_has_rows_with_figures() {
        for table in [KASHTAN, JOY_PAGING, BBN_PIPE, BBN_PORT, BBN_BARE, FRANKE, ALLEN] {
            let rows = lines(table);
            assert!(
                rows.len() > 5 && rows.iter().all(|row| row.figures.iter().any(Option::is_some))
            );
        }
    }
}
