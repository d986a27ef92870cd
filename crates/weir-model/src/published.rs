//! The published figures of the four reports, from the tables in `data/`.

/// A table: the names of its columns, and its rows as texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The names of the columns.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<&'static str>>,
}

/// BBN 1978, tables 1 and 2.
pub const BBN_PIPE: &str = include_str!("../../../data/bbn_1978_pipe_1140.csv");
/// BBN 1978, table 3.
pub const BBN_PORT: &str = include_str!("../../../data/bbn_1978_port_1140.csv");
/// BBN 1978, table 4.
pub const BBN_BARE: &str = include_str!("../../../data/bbn_1978_port_bare_1140.csv");
/// Joy 1980, system calls.
pub const JOY_SYSCALL: &str = include_str!("../../../data/joy_1980_syscall_vax780.csv");
/// Joy 1980, context switches.
pub const JOY_SWITCH: &str = include_str!("../../../data/joy_1980_switch_vax780.csv");
/// Joy 1980, packets.
pub const JOY_IPC: &str = include_str!("../../../data/joy_1980_ipc_vax780.csv");
/// Joy 1980, paging.
pub const JOY_PAGING: &str = include_str!("../../../data/joy_1980_paging_vax780.csv");
/// Allen, the daemon and its driver.
pub const ALLEN: &str = include_str!("../../../data/allen_mit_icmp_1145.csv");
/// Franke 2001.
pub const FRANKE: &str = include_str!("../../../data/franke_2001_2way.csv");

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
