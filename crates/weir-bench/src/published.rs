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
}
