//! Published figures beside those measured, for the experiments that the reports of 1980 and 2001 and
//! Allen's report describe.

mod allen;
mod bbn;
mod franke;
mod joy;
mod kashtan;
mod net;

use comfy_table::Table;
use weir_bench::engine::params::Placement;
use weir_bench::engine::record::{CaseRecord, ComparisonRecord};
use weir_command::output::trimmed;
use weir_model::published::{PublishedRow, lines};

/// The text below the table of a suite, if there is any. `comparisons` are those of all suites.
pub fn beside(
    suite: &str,
    cases: &[&CaseRecord],
    comparisons: &[ComparisonRecord],
) -> Option<String> {
    match suite {
        "joy-syscall" => Some(joy::syscall(cases)),
        "joy-switch" => joy::switch(cases),
        "joy-ipc" => joy::ipc(cases),
        "joy-fs" => joy::files(cases),
        "joy-swap" => joy::swapping(cases),
        "bbn-pipe" => bbn::pipe(cases),
        "bbn-port" => bbn::port(cases),
        "bbn-loaded" => bbn::loaded(cases),
        "kashtan-paging" => kashtan::paging(cases),
        "franke-grep" => franke::grep(cases),
        "franke-pipe" => franke::pipe(cases),
        "franke-pipeflex" => franke::pipeflex(cases),
        "allen-echo" => allen::echo(cases, comparisons),
        "net-tftp" => net::tftp(cases, comparisons),
        "net-tcp" => net::tcp(comparisons),
        _ => None,
    }
}

pub use joy::LOOK_UP;

pub fn first(line: &PublishedRow) -> f64 {
    line.figures.first().copied().flatten().unwrap_or(0.0)
}

/// The phases of a call, at the first placement at which they were measured.
pub fn phases<'c>(cases: impl Iterator<Item = &'c CaseRecord>) -> Vec<&'c CaseRecord> {
    let mut phases: Vec<&CaseRecord> = cases.filter(|case| is_phase(case)).collect();
    if let Some(place) = phases.first().map(|case| case.placement) {
        phases.retain(|case| case.placement == place);
    }
    phases
}

fn is_phase(case: &CaseRecord) -> bool {
    case.params.operation.as_deref() == Some("phase")
}

/// Whether a phase belongs to a read. The getppid path is another call.
pub fn in_read(case: &CaseRecord) -> bool {
    !case.case.contains("getppid")
}

pub fn phase_name(case: &CaseRecord) -> &str {
    case.case.trim_start_matches("phase: ")
}

fn find<'c>(cases: &[&'c CaseRecord], name: &str, placement: Placement) -> Option<&'c CaseRecord> {
    let mut cases = cases.iter();
    cases.find(|case| case.case == name && case.placement == placement).copied()
}

/// The cases at one of these placements, which all figures of a table have: the first that has more
/// than half as many as any other.
fn of_one_placement<'c>(cases: &[&'c CaseRecord], places: &[Placement]) -> Vec<&'c CaseRecord> {
    let at = |place: &Placement| -> Vec<&'c CaseRecord> {
        cases.iter().copied().filter(|case| case.placement == *place).collect()
    };
    let most = places.iter().map(|place| at(place).len()).max().unwrap_or(0);
    places.iter().map(at).find(|found| 2 * found.len() > most).unwrap_or_default()
}

/// The case of this name among those of one placement.
fn named<'c>(cases: &[&'c CaseRecord], name: &str) -> Option<&'c CaseRecord> {
    cases.iter().copied().find(|case| case.case == name)
}

/// Two cases at the first of these placements that has both, in one state of the cache line: figures of
/// two placements or states do not compare.
fn both<'c>(
    cases: &[&'c CaseRecord],
    [one, other]: [&str; 2],
    places: &[Placement],
) -> Option<(&'c CaseRecord, &'c CaseRecord)> {
    places.iter().find_map(|place| {
        let of = |name| {
            let is = move |case: &&&CaseRecord| case.case == name && case.placement == *place;
            cases.iter().filter(is).copied()
        };
        let alike = |one: &'c CaseRecord| {
            let other = of(other).find(|other| other.stratum == one.stratum)?;
            Some((one, other))
        };
        of(one).find_map(alike)
    })
}

/// What became of a conclusion that the first figure is larger: by their intervals.
fn claim(larger: &CaseRecord, smaller: &CaseRecord) -> &'static str {
    match () {
        () if larger.low > smaller.high => "holds",
        () if larger.high < smaller.low => "does not hold",
        () => "is not decided",
    }
}

/// The text of a table that has rows.
fn filled(table: &Table) -> Option<String> {
    (table.row_count() > 0).then(|| trimmed(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::tests::case;
    use weir_bench::engine::case::{Measure, Suite};
    use weir_bench::engine::params::{Params, Unit};

    /// All figures of a suite, as if each case gave the same.
    fn figures(suite: &Suite) -> Vec<CaseRecord> {
        let of = |name: &str, params: &Params, measure: &Measure| CaseRecord {
            params: params.clone(),
            unit: measure.unit,
            ..case(name, 2.0, None)
        };
        let mut figures = Vec::new();
        for group in &suite.groups {
            for measured in &group.cases {
                let several = measured.measures.len() > 1;
                figures.extend(measured.measures.iter().map(|measure| {
                    let name = match several {
                        true => format!("{}, {}", measured.name, measure.quantity),
                        false => measured.name.clone(),
                    };
                    of(&name, &measured.params, measure)
                }));
            }
            let derived = group.derived.iter();
            figures.extend(derived.map(|one| of(&one.name, &one.params, &one.measure)));
        }
        let places = [Placement::SameCpu, Placement::OtherCpu, Placement::Free];
        let each = figures.iter().flat_map(|figure| places.map(|placement| (figure, placement)));
        each.map(|(figure, placement)| CaseRecord { placement, ..figure.clone() }).collect()
    }

    /// At two placements, each phase was there twice, with half of its share.
    #[test]
    fn phases_of_two_placements_are_not_added_up() {
        let phase = |placement| {
            let operation = Some("phase".into());
            let params = Params { operation, ..Params::default() };
            CaseRecord { params, placement, ..case("phase: VFS", 2.0, None) }
        };
        let both = [Placement::SameCpu, Placement::Free].map(phase);
        let text = joy::syscall(&both.each_ref());
        assert_eq!(text.matches("VFS").count(), 1, "{text}");
        assert!(text.contains("100 %"), "{text}");
    }

    /// The look-up that is timed fails, which was not said where it stands.
    #[test]
    fn what_the_look_up_is_stands_below_it() {
        let suites = weir_bench::catalogue();
        let suite = suites.iter().find(|suite| suite.name == "joy-syscall").expect("there is one");
        let figures = figures(suite);
        let cases: Vec<&CaseRecord> = figures.iter().collect();
        assert!(joy::syscall(&cases).contains("descriptor that is not open"));
        let few: Vec<&CaseRecord> =
            cases.into_iter().filter(|case| !case.case.contains("look-up")).collect();
        assert!(!joy::syscall(&few).contains("descriptor that is not open"));
    }

    /// A pipe at one placement was put over the least pipe at another one, whose figure at the
    /// first was too vague.
    #[test]
    fn gains_are_within_one_placement() {
        let of = |pipe: &str, placement, rate| {
            let name = format!("chunk 8 KiB through {pipe}");
            CaseRecord { placement, unit: Unit::MegabytesPerSecond, ..case(&name, rate, None) }
        };
        let (near, far) = (Placement::SameCpu, Placement::OtherCpu);
        let figures = [of("4 KiB", near, 100.0), of("8 KiB", near, 150.0), of("8 KiB", far, 900.0)];
        let text = franke::pipe(&figures.iter().collect::<Vec<_>>()).expect("a table");
        assert!(text.contains("+50") && !text.contains("+800"), "{text}");
    }

    /// Where a figure was too vague at one placement, that of another one stood in its place.
    #[test]
    fn a_table_has_figures_of_one_placement() {
        let of = |name: &str, placement, figure, pipe_bytes| {
            let params = Params { pipe_bytes, ..Params::default() };
            let unit = if pipe_bytes.is_some() { Unit::MegabytesPerSecond } else { Unit::Ns };
            CaseRecord { params, unit, placement, ..case(name, figure, None) }
        };
        let (same, other, free) = (Placement::SameCpu, Placement::OtherCpu, Placement::Free);
        let text = |figures: &[CaseRecord], suite: &str| {
            beside(suite, &figures.iter().collect::<Vec<_>>(), &[]).unwrap_or_default()
        };
        let blocks = |rule: &str| format!("pool, {rule} rule, blocks of 4 KiB, real");
        let bbn = [
            of(&blocks("standard"), same, 1234.0, None),
            of(&blocks("improved"), free, 56.0, None),
        ];
        let bbn = text(&bbn, "bbn-pipe");
        assert!(bbn.contains("1.23 us") && !bbn.contains("56.0 ns"), "{bbn}");
        let walk = |run: &str, placement, figure| {
            of(&format!("kernel-mmap, 1/2 of it, {run}"), placement, figure, None)
        };
        let paging =
            text(&[walk("sequential", same, 100.0), walk("random", free, 700.0)], "kashtan-paging");
        assert!(paging.contains("1.00x") && !paging.contains("7.00x"), "{paging}");
        let grep = |kib: u64, placement, rate| {
            of(&format!("cat | grep through {kib} KiB"), placement, rate, Some(kib << 10))
        };
        let found = [grep(4, free, 100.0), grep(8, free, 150.0), grep(32, same, 900.0)];
        let grep = text(&found, "franke-grep");
        assert!(grep.contains("+50") && !grep.contains("+800"), "{grep}");
        let pipe = |kib: u64, placement, rate| {
            of(&format!("chunk 8 KiB through {kib} KiB"), placement, rate, Some(kib << 10))
        };
        let found = [
            pipe(4, other, 100.0),
            pipe(8, other, 160.0),
            pipe(4, same, 100.0),
            pipe(16, same, 900.0),
        ];
        let pipes = text(&found, "franke-pipe");
        assert!(pipes.contains("+60") && !pipes.contains("+800"), "{pipes}");
    }

    /// Franke's tables of two CPUs stood beside figures of one, where he concluded the opposite.
    #[test]
    fn figures_of_one_cpu_stand_beside_the_conclusion_for_one() {
        let of = |placement| {
            [("4 KiB", 100.0), ("32 KiB", 150.0)].map(|(pipe, rate)| {
                let name = format!("chunk 8 KiB through {pipe}");
                CaseRecord { placement, unit: Unit::MegabytesPerSecond, ..case(&name, rate, None) }
            })
        };
        let text =
            |placement| franke::pipe(&of(placement).iter().collect::<Vec<_>>()).expect("a table");
        let (one, two) = (text(Placement::SameCpu), text(Placement::OtherCpu));
        assert!(one.contains("make no sense") && one.contains("does not hold here"), "{one}");
        assert!(!one.contains("2.4.9") && two.contains("2.4.9"), "{one}\n{two}");
    }

    /// Two cases of which each has one state of the cache line were compared, a near one with a far
    /// one; and a mechanism at one placement with another at the next.
    #[test]
    fn what_is_compared_is_at_one_placement_and_in_one_state() {
        let of = |name: &str, placement, state: &str, rate| CaseRecord {
            placement,
            stratum: Some(state.into()),
            unit: Unit::PerSecond,
            ..case(name, rate, None)
        };
        let (mpx, pipe) = ("one-way weir-mpx 4 B", "one-way kernel-pipe 4 B");
        let (near, far) = (Placement::SameCpu, Placement::OtherCpu);
        let rest = ["self kernel-pipe 4 B", "two-way kernel-pipe 4 B"];
        let mut figures: Vec<_> = rest.map(|name| of(name, near, "near", 50.0)).into();
        figures.extend([of(mpx, far, "near", 900.0), of(pipe, near, "near", 100.0)]);
        let text = joy::ipc(&figures.iter().collect::<Vec<_>>()).expect("a table");
        assert!(!text.contains("times the 4-byte packets"), "{text}");
        let places = [far];
        figures = vec![of(mpx, far, "near", 900.0), of(pipe, far, "far", 100.0)];
        assert!(both(&figures.iter().collect::<Vec<_>>(), [mpx, pipe], &places).is_none());
        figures.push(of(pipe, far, "near", 300.0));
        let cases: Vec<&CaseRecord> = figures.iter().collect();
        let (_, found) = both(&cases, [mpx, pipe], &places).expect("both");
        assert_eq!(found.estimate, 300.0);
    }

    /// A switch of less than nothing was "-3.00 ns" and "inf M/s", although the table above says that
    /// it cannot be told from nothing.
    #[test]
    fn what_cannot_be_told_from_nothing_is_a_bound() {
        let below = |name: &str| CaseRecord {
            placement: Placement::SameCpu,
            below_resolution: true,
            low: -10.0,
            high: 4.0,
            ..case(name, -3.0, None)
        };
        let figures = [below("switch by pipe less the pipe")];
        let text = joy::switch(&figures.iter().collect::<Vec<_>>()).expect("a text");
        assert!(text.contains("this host: < 4.00 ns") && text.contains("> 250 M/s"), "{text}");
        assert!(!text.contains("-3") && !text.contains("inf"), "{text}");
        let whole = CaseRecord {
            placement: Placement::SameCpu,
            ..case("phase: entry and exit", 96.0, None)
        };
        let figures = [whole, below("phase: the call proper (getppid)")];
        let text = joy::syscall(&figures.iter().collect::<Vec<_>>());
        assert!(text.contains("getppid proper is < 4 % of the call"), "{text}");
    }

    #[test]
    fn every_suite_of_a_report_says_whether_its_conclusion_holds_here() {
        for suite in weir_bench::catalogue() {
            // No report concluded anything from the first; the last one's conclusions come from
            // pairs, which the tests of allen.rs check.
            const LEFT_OUT: [&str; 6] =
                ["limits", "port-writers", "buffers", "buffers-backlog", "net-tcp", "allen-echo"];
            if LEFT_OUT.contains(&suite.name) {
                continue;
            }
            let figures = figures(&suite);
            let cases: Vec<&CaseRecord> = figures.iter().collect();
            let text = beside(suite.name, &cases, &[]).unwrap_or_default();
            let last = text.rsplit("\n\n").next().unwrap_or_default();
            assert!(last.contains(" here"), "{}: {text}", suite.name);
        }
    }
}
