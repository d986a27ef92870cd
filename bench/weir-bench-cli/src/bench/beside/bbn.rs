//! BBN's tables beside the figures of today: a block's real time, and the share of a CPU.

use super::{both, claim, filled, lines, named, of_one_placement};
use crate::figure::figure;
use weir_bench::engine::params::{Placement, Unit};
use weir_bench::engine::record::CaseRecord;
use weir_command::output::aligned;
use weir_measure::machine::size;
use weir_model::published::{BBN_BARE, BBN_PIPE, BBN_PORT, PublishedRow};

/// One CPU, as then, where it was measured.
const PLACES: [Placement; 3] = [Placement::SameCpu, Placement::OtherCpu, Placement::Free];

/// How much faster the improved system stays under load, in BBN's section 5.
const TIMES_FASTER: f64 = 3.0;

fn now<'c>(cases: &[&'c CaseRecord], name: &str, quantity: &str) -> Option<&'c CaseRecord> {
    named(cases, &format!("{name}, {quantity}"))
}

/// The real times of two cases, in one state of the cache line.
fn pair<'c>(
    cases: &[&'c CaseRecord],
    names: [String; 2],
) -> Option<(&'c CaseRecord, &'c CaseRecord)> {
    let [one, other] = names.map(|name| format!("{name}, real"));
    both(cases, [&one, &other], &PLACES)
}

/// Seconds of 1000 blocks as the time of one, and the share of the CPU: all its times over real time.
fn then(row: &PublishedRow, real: usize, cpu: &[usize]) -> [String; 2] {
    let figure_at = |at: usize| row.figures.get(at).copied().flatten();
    let Some(real_s) = figure_at(real) else { return Default::default() };
    let used: f64 = cpu.iter().filter_map(|at| figure_at(*at)).sum();
    [figure(real_s * 1e6, Unit::Ns), format!("{:.0} %", used / real_s * 100.0)]
}

fn here(cases: &[&CaseRecord], name: &str) -> [String; 2] {
    let real = now(cases, name, "real").map(|case| figure(case.estimate, Unit::Ns));
    let cpu = now(cases, name, "cpu").map(|case| format!("{:.0} %", case.estimate));
    [real.unwrap_or_default(), cpu.unwrap_or_default()]
}

/// A column of today: its title, and the case for a block of a size.
type NowColumn<'a> = (&'a str, &'a dyn Fn(&str) -> String);

/// A table of real time and CPU: the columns of the report, then those of today. Without a row of today
/// there is none.
fn table(
    cases: &[&CaseRecord],
    published: &'static str,
    old: [(&str, usize, &[usize]); 2],
    new: &[NowColumn<'_>],
) -> Option<String> {
    let titles = old.iter().map(|(title, ..)| *title).chain(new.iter().map(|(title, _)| *title));
    let mut header = vec![String::from("  a block")];
    titles.for_each(|title| header.extend([title.to_owned(), String::from("CPU")]));
    let columns = header.len();
    let mut table = aligned(header, 1..columns);
    for row in lines(published) {
        let Some(bytes) = row.name.parse::<u64>().ok() else { continue };
        let name = size(bytes);
        let of_now: Vec<[String; 2]> =
            new.iter().map(|(_, case)| here(cases, &case(&name))).collect();
        if of_now.iter().flatten().all(String::is_empty) {
            continue;
        }
        let of_then = old.iter().map(|(_, real, cpu)| then(&row, *real, cpu));
        let cells = of_then.chain(of_now).flatten();
        table.add_row(std::iter::once(format!("  {name}")).chain(cells));
    }
    filled(&table)
}

/// Tables 1 and 2 beside the pipes of today.
pub fn pipe(cases: &[&CaseRecord]) -> Option<String> {
    let cases = &of_one_placement(cases, &PLACES);
    let kernel = |name: &str| format!("pipe, blocks of {name}");
    let own = |name: &str| format!("weir pipe, blocks of {name}");
    let standard = |name: &str| format!("pool, standard rule, blocks of {name}");
    let improved = |name: &str| format!("pool, improved rule, blocks of {name}");
    let new: [NowColumn<'_>; 4] = [
        ("pool, standard", &standard),
        ("improved", &improved),
        ("kernel's pipe", &kernel),
        ("weir's", &own),
    ];
    let old: [(&str, usize, &[usize]); 2] = [("1978 standard", 0, &[1]), ("improved", 2, &[3])];
    let ratio = |bytes: &str| {
        let (slow, fast) = pair(cases, [standard(bytes), improved(bytes)])?;
        Some((claim(slow, fast), slow.estimate / fast.estimate))
    };
    let said = ratio("4 KiB").zip(ratio("2 B")).map(|((holds, large), (_, small))| {
        format!(
            "\n\n  BBN: without writes to the disk 4096 bytes take 5.4 times less, and 2 bytes no less. It {holds} here: {large:.1}\n  \
             times less by the improved rule for 4 KiB, {small:.2} for 2 B."
        )
    });
    Some(table(cases, BBN_PIPE, old, &new)? + &said.unwrap_or_default())
}

/// Table 3, with header and check, and table 4, bare.
pub fn port(cases: &[&CaseRecord]) -> Option<String> {
    let cases = &of_one_placement(cases, &PLACES);
    let checked = |name: &str| format!("weir-port, header and check, {name}");
    let old: [(&str, usize, &[usize]); 2] =
        [("1978 standard", 0, &[1, 2]), ("improved", 3, &[4, 5])];
    let standard = |name: &str| format!("weir-port in a pool, standard rule, check, {name}");
    let improved = |name: &str| format!("weir-port in a pool, improved rule, check, {name}");
    let new: [NowColumn<'_>; 3] = [
        ("port in a pool, standard", &standard),
        ("improved", &improved),
        ("weir's port", &checked),
    ];
    let first = table(cases, BBN_PORT, old, &new);
    let kernel = |name: &str| format!("kernel-pipe, bare, {name}");
    let stream = |name: &str| format!("weir-pipe, bare, {name}");
    let bare = |name: &str| format!("weir-port, bare, {name}");
    let old: [(&str, usize, &[usize]); 2] = [("bare: 1978 pipe", 0, &[1]), ("1978 port", 2, &[3])];
    let new: [NowColumn<'_>; 3] =
        [("kernel's pipe", &kernel), ("weir's pipe", &stream), ("weir's port", &bare)];
    let second = table(cases, BBN_BARE, old, &new);
    let said = pair(cases, [bare("512 B"), stream("512 B")]).map(|(port, pipe)| {
        let holds = claim(port, pipe);
        format!(
            "  BBN: a port costs slightly more than a pipe (48 beside 45 s at 512 bytes). It {holds} here: {:.2} times weir's pipe.",
            port.estimate / pipe.estimate
        )
    });
    let rules = pair(cases, [standard("4 KiB"), improved("4 KiB")]).map(|(slow, fast)| {
        format!(
            "  BBN: through a port, 4096 bytes take 2.5 times less without writes to the disk. It {} here: {:.1} times less by\n  \
             the improved rule, in a port whose writer is ahead of its reader.",
            claim(slow, fast),
            slow.estimate / fast.estimate
        )
    });
    let all: Vec<String> = [first, rules, second, said].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}

/// What competition for the buffers of one pool costs by both rules, and BBN's conclusion of section 5.
pub fn loaded(cases: &[&CaseRecord]) -> Option<String> {
    let beside = ["standard", "improved"]
        .map(|rule| format!("two pairs and a copy in one pool, {rule} rule, 4 KiB"));
    let (standard, improved) = pair(cases, beside)?;
    let holds = match () {
        () if standard.low > TIMES_FASTER * improved.high => "holds",
        () if standard.high < TIMES_FASTER * improved.low => "does not hold",
        () => "is not decided",
    };
    let said = format!(
        "  BBN: under load the improved system stays more than three times faster. It {holds} here: beside another pair and a\n  \
         copy in one pool, 4 KiB take {:.2} times less by the improved rule.",
        standard.estimate / improved.estimate
    );
    Some([competition(cases), Some(said)].into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
}

/// How many times as long a block takes beside others as alone, by each rule.
fn competition(cases: &[&CaseRecord]) -> Option<String> {
    let slower = |rule: &str| {
        let names = ["one pair", "two pairs and a copy"];
        let names = names.map(|what| format!("{what} in one pool, {rule} rule, 4 KiB"));
        let (alone, beside) = pair(cases, names)?;
        Some(beside.estimate / alone.estimate)
    };
    let (improved, standard) = slower("improved").zip(slower("standard"))?;
    Some(format!(
        "  Beside another pair and a copy in one pool, 4 KiB take {improved:.1} times as long as alone by the improved rule,\n  \
         {standard:.1} times by the standard one."
    ))
}
