//! Kashtan's paging benchmarks by system, beside those of today. References a run are not published, so
//! each system's times are put over its own sequential or shortest run: only such ratios compare.

use super::{claim, filled, find, lines, named, of_one_placement};
use weir_bench::engine::params::Placement;
use weir_bench::engine::record::CaseRecord;
use weir_command::output::aligned;
use weir_model::published::{JOY_PAGING, PublishedRow};

const PLACES: [Placement; 2] = [Placement::SameCpu, Placement::Free];
/// The systems of the report and their columns.
const SYSTEMS: [(&str, usize); 3] = [("VMS", 0), ("SRI", 1), ("old", 2)];
/// The mechanisms of today.
const MECHANISMS: [&str; 4] =
    ["kernel-mmap", "kernel-mmap-advised", "weir-region", "weir-region-advised"];

/// A run as the report names it, over the run that it is compared with.
fn base(name: &str) -> &'static str {
    if name.starts_with("walk") { "walk 1" } else { "sequential" }
}

fn now<'c>(cases: &[&'c CaseRecord], mechanism: &str, run: &str) -> Option<&'c CaseRecord> {
    let name = format!("{mechanism}, 1/2 of it, {}", run.replace(' ', "-"));
    named(cases, &name)
}

fn then(rows: &[PublishedRow], run: &str, column: usize) -> Option<f64> {
    let row = rows.iter().find(|row| row.name == run)?;
    row.figures.get(column).copied().flatten()
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or(String::new(), |ratio| format!("{ratio:.2}x"))
}

/// The table, with half of the memory, and what became of the conclusion.
pub fn paging(cases: &[&CaseRecord]) -> Option<String> {
    let (all, cases) = (cases, &of_one_placement(cases, &PLACES));
    let rows = lines(JOY_PAGING);
    let systems = SYSTEMS.map(|(name, _)| format!("{name}, 1980"));
    let mut header = vec![String::from("  over sequential, or walk 1")];
    header.extend(systems.into_iter().chain(MECHANISMS.map(String::from)));
    let columns = header.len();
    let mut table = aligned(header, 1..columns);
    for row in &rows {
        let (run, base) = (row.name, base(row.name));
        let over = |value: Option<f64>, least: Option<f64>| Some(value? / least?);
        let old = SYSTEMS.map(|(_, at)| over(then(&rows, run, at), then(&rows, base, at)));
        let of = |name, run| Some(now(cases, name, run)?.estimate);
        let new = MECHANISMS.map(|name| over(of(name, run), of(name, base)));
        if new.iter().any(Option::is_some) {
            let cells = old.into_iter().chain(new).map(times);
            table.add_row(std::iter::once(format!("  {run}")).chain(cells));
        }
    }
    let advised = |run| {
        let (plain, told) =
            (now(cases, "kernel-mmap", run)?, now(cases, "kernel-mmap-advised", run)?);
        Some((claim(plain, told), plain.estimate / told.estimate))
    };
    let said = advised("sequential").zip(advised("random")).map(|(sequential, random)| {
        format!(
            "\n\n  Joy: a program that tells the system how it references its pages is paged better. With advice a reference takes\n  \
             {:.2} times less in sequence, where that {} here, and {:.2} times less at random, where it {}.",
            sequential.1, sequential.0, random.1, random.0
        )
    });
    let said = [said, replacement(cases), neighbours(all)];
    let text = filled(&table).unwrap_or_default() + &said.into_iter().flatten().collect::<String>();
    (!text.is_empty()).then(|| String::from(text.trim_start_matches('\n')))
}

/// How many times the optimum's faults a rule may have to be nearly optimal.
const NEARLY: f64 = 1.25;

/// Joy's conclusion of the rules of replacement. The faults of a string are exact.
fn replacement(cases: &[&CaseRecord]) -> Option<String> {
    let of = |rule: &str, order: &str| {
        Some(named(cases, &format!("replacement: {rule}, {order}"))?.estimate)
    };
    let against = |order| {
        let over = |rule| Some(of(rule, order)? / of("optimum", order)?);
        Some((order, over("circular")?, over("random")?, over("clock")?))
    };
    let orders: Option<Vec<_>> =
        ["sequential", "random", "walk-60"].into_iter().map(against).collect();
    let orders = orders?;
    let is_near = orders.iter().all(|&(_, circular, random, _)| circular.min(random) <= NEARLY);
    let mut text = format!(
        "\n\n  Joy: circular or random replacement is nearly optimal. That one of them has at most {NEARLY} times the fewest\n  \
         possible faults {} here. Times the fewest:",
        if is_near { "holds" } else { "does not hold" }
    );
    for (order, circular, random, clock) in orders {
        text.push_str(&format!(
            "\n  {order}: circular {circular:.2}, random {random:.2}, a clock {clock:.2}"
        ));
    }
    Some(text + ".")
}

/// By how much a workload may take longer beside a pager, and be called unchanged.
const UNCHANGED: f64 = 1.1;

/// Joy's conclusion of a general workload beside a program that pages.
fn neighbours(cases: &[&CaseRecord]) -> Option<String> {
    let of = |who: &str| find(cases, &format!("sort and gzip beside {who}"), Placement::Free);
    let alone = of("nobody")?;
    let mut text = format!(
        "\n\n  Joy: a general workload beside the programs that page is unchanged (at most {UNCHANGED} times as long)."
    );
    for who in ["weir-region-calls", "weir-region", "kernel-mmap", "kernel-swap"] {
        let Some(beside) = of(who) else { continue };
        let verdict = match () {
            () if beside.high <= UNCHANGED * alone.low => "holds",
            () if beside.low > UNCHANGED * alone.high => "does not hold",
            () => "is not decided",
        };
        let times = beside.estimate / alone.estimate;
        text.push_str(&format!("\n  Beside {who} that {verdict} here: {times:.2} times."));
    }
    Some(text)
}
