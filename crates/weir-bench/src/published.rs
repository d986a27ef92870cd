//! The published figures of the four reports, from the tables in `data/`.

/// One row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// The first column.
    pub name: String,
    /// The other columns; `None` where the report has no number.
    pub figures: Vec<Option<f64>>,
}

/// Joy 1980: the parts of the time of a trivial system call on the old system, in microseconds.
pub const JOY_SYSCALL: &str = include_str!("../../../data/joy_1980_syscall_vax780.csv");
/// Joy 1980: 4-byte packets per second to self, one way and two ways.
pub const JOY_IPC: &str = include_str!("../../../data/joy_1980_ipc_vax780.csv");
/// Joy 1980: the parts of a context switch, in microseconds.
pub const JOY_SWITCH: &str = include_str!("../../../data/joy_1980_switch_vax780.csv");
/// Kashtan 1980: exchanges and switches a second, and costs of VMS.
pub const KASHTAN: &str = include_str!("../../../data/kashtan_1980_rates_vax780.csv");
/// Joy 1980: Kashtan's paging benchmarks by system, in seconds.
pub const JOY_PAGING: &str = include_str!("../../../data/joy_1980_paging_vax780.csv");
/// BBN 1978: real and system time of 1000 blocks through a pipe, standard and improved.
pub const BBN_PIPE: &str = include_str!("../../../data/bbn_1978_pipe_1140.csv");
/// BBN 1978: real, user and system time of 1000 blocks through a port, standard and improved.
pub const BBN_PORT: &str = include_str!("../../../data/bbn_1978_port_1140.csv");
/// BBN 1978: a bare pipe beside a bare port.
pub const BBN_BARE: &str = include_str!("../../../data/bbn_1978_port_bare_1140.csv");
/// Franke 2001: improvement over pipes of 4 KiB, in percent.
pub const FRANKE: &str = include_str!("../../../data/franke_2001_2way.csv");
/// Allen: an echo by a daemon at user level, and its packet driver, in milliseconds.
pub const ALLEN: &str = include_str!("../../../data/allen_mit_icmp_1145.csv");

/// Parses a table: lines that begin with '#' are comments, and the first other line names the
/// columns.
pub fn lines(table: &str) -> Vec<PublishedRow> {
    let rows = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.filter(|line| !line.is_empty())
        .map(|line| {
            let mut columns = line.split(',');
            let name = columns.next().unwrap_or("").to_owned();
            PublishedRow { name, figures: columns.map(|figure| figure.parse().ok()).collect() }
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
