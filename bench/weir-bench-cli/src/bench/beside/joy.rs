//! What Joy and Kashtan measured on a VAX-11/780 in 1980, beside the calls, switches, packets and files of
//! today, and what became of their conclusions.

use super::{both, claim, filled, find, first, in_read, lines, phase_name, phases};
use crate::figure::figure;
use weir_bench::engine::params::{Placement, Unit};
use weir_bench::engine::record::CaseRecord;
use weir_command::output::{aligned, trimmed};
use weir_command::units::words::percent;
use weir_model::published::{JOY_IPC, JOY_SWITCH, JOY_SYSCALL, KASHTAN, PublishedRow};

/// What the phase of the look-up is.
pub const LOOK_UP: &str = "The look-up is that of a descriptor that is not open: what one that is \
    open takes beyond it is part of VFS.";

/// A figure, or the upper end of one that cannot be told from nothing.
fn at_most(case: &CaseRecord) -> (&'static str, f64) {
    if case.below_resolution { ("< ", case.high.max(0.0)) } else { ("", case.estimate) }
}

fn shown(case: &CaseRecord) -> String {
    let (below, value) = at_most(case);
    format!("{below}{}", figure(value, case.unit))
}

/// A table of Joy's parts of a call and the phases measured here, each with its share.
pub fn syscall(cases: &[&CaseRecord]) -> String {
    let then = lines(JOY_SYSCALL);
    let all_then: f64 = then.iter().map(first).sum();
    let now = phases(cases.iter().copied());
    let all_now: f64 =
        now.iter().filter(|case| in_read(case)).map(|case| case.estimate.max(0.0)).sum();
    let header = ["  VAX-11/780, 1980 (Joy)", "us", "share", "this host, a read", "ns", "share"];
    let mut table = aligned(header, [1, 2, 4, 5]);
    for row in 0..then.len().max(now.len()) {
        let left = then.get(row).map(|line| {
            let us = first(line);
            [format!("  {}", line.name), format!("{us:.0}"), percent(us / all_then)]
        });
        let right = now.get(row).map(|case| {
            let share = if in_read(case) {
                percent(case.estimate.max(0.0) / all_now)
            } else {
                String::from("-")
            };
            let (below, ns) = at_most(case);
            [phase_name(case).to_owned(), format!("{below}{ns:.1}"), share]
        });
        table.add_row(left.unwrap_or_default().into_iter().chain(right.unwrap_or_default()));
    }
    let own = |name: &str| find(cases, name, Placement::SameCpu);
    let ends =
        own("phase: entry and exit").zip(own("phase: the call proper (getppid)")).map(|(around, proper)| {
            let (below, proper_ns) = at_most(proper);
            format!(
                "\n\n  Joy: a trivial call is entry, saving and bookkeeping; the call proper is 8 % of it. That entry and exit take\n  \
                 more than the call proper {} here: getppid proper is {below}{} of the call.",
                claim(around, proper),
                percent(proper_ns / (around.estimate + proper_ns))
            )
        });
    let looks_up = now.iter().any(|case| phase_name(case).contains("look-up"));
    let note = if looks_up { format!("\n\n  {LOOK_UP}") } else { String::new() };
    trimmed(&table) + &note + &ends.unwrap_or_default()
}

/// Joy's parts of a switch beside ours, Kashtan's rates and VMS's costs beside the cases of today.
pub fn switch(cases: &[&CaseRecord]) -> Option<String> {
    let now = find(cases, "switch by pipe less the pipe", Placement::SameCpu)?;
    let then = lines(JOY_SWITCH);
    let is_part = |line: &&PublishedRow| line.name.starts_with("part");
    let states = then.iter().filter(|line| !is_part(line));
    let history: Vec<String> =
        states.map(|line| format!("{} {:.0} us", line.name, first(line))).collect();
    let head =
        format!("  VAX-11/780, 1980 (Joy): {}; this host: {}", history.join(", "), shown(now));
    let parts: Vec<&PublishedRow> = then.iter().filter(is_part).collect();
    let tables = [
        Some(head),
        switch_parts(&parts, cases),
        rates(cases),
        locks(cases),
        choice(cases),
        signals(cases),
    ];
    Some(tables.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))
}

/// Joy's parts and, where the switch was traced, the phases of today, each with its share.
fn switch_parts(then: &[&PublishedRow], cases: &[&CaseRecord]) -> Option<String> {
    let phases = cases.iter().filter_map(|case| {
        let phase = case.case.strip_prefix("traced switch, ")?;
        (phase != "one event").then_some((phase, *case))
    });
    let now: Vec<(&str, &CaseRecord)> = phases.collect();
    let (all_then, all_now) = (
        then.iter().map(|line| first(line)).sum::<f64>(),
        now.iter().map(|(_, case)| case.estimate.max(0.0)).sum::<f64>().max(f64::MIN_POSITIVE),
    );
    let header =
        ["  parts of a switch, 1980 (Joy)", "us", "share", "this host, traced", "ns", "share"];
    let mut table = aligned(header, [1, 2, 4, 5]);
    for row in 0..then.len().max(now.len()) {
        let left = then.get(row).map(|line| {
            let us = first(line);
            let name = line.name.trim_start_matches("part: ");
            [format!("  {name}"), format!("{us:.0}"), percent(us / all_then)]
        });
        let right = now.get(row).map(|(name, case)| {
            let (below, ns) = at_most(case);
            let share = percent(case.estimate.max(0.0) / all_now);
            [(*name).to_owned(), format!("{below}{ns:.0}"), share]
        });
        table.add_row(left.unwrap_or_default().into_iter().chain(right.unwrap_or_default()));
    }
    Some(trimmed(&table)).filter(|_| !then.is_empty())
}

/// Kashtan's and VMS's figures, and the cases of today: half of an exchange each.
fn rates(cases: &[&CaseRecord]) -> Option<String> {
    const ROWS: [(&str, &str); 6] = [
        ("exchanges by event flags (VMS)", "switch by weir flags"),
        ("exchanges by kill (UNIX)", "switch by kill"),
        ("switches (VMS)", "switch by pipe less the pipe"),
        ("switches (UNIX)", "switch by pipe less the pipe"),
        ("event flag call (VMS)", "weir flag set and cleared"),
        ("switch (VMS)", "switch by pipe less the pipe"),
    ];
    let then = lines(KASHTAN);
    let mut table = aligned(["  VAX-11/780, 1980", "", "this host, same-cpu", "", ""], [1, 3]);
    for (quantity, name) in ROWS {
        let was = then.iter().find(|line| line.name == quantity).map(first)?;
        let Some(now) = find(cases, name, Placement::SameCpu) else { continue };
        let is_time = quantity.starts_with("event flag call") || quantity == "switch (VMS)";
        // An exchange has two switches, and a case is one of them.
        let per = if quantity.starts_with("exchanges") { 2.0 } else { 1.0 };
        let (was, is) = if is_time {
            (format!("{was:.0} us"), shown(now))
        } else {
            let (below, ns) = at_most(now);
            let above = if below.is_empty() { "" } else { "> " };
            let rate = 1e9 / (per * ns.max(f64::MIN_POSITIVE));
            (format!("{was:.0} /s"), format!("{above}{}", figure(rate, Unit::PerSecond)))
        };
        table.add_row([format!("  {quantity}"), was, name.into(), is]);
    }
    filled(&table)
}

/// Joy's share of spl, and the share of the locks of today, at least.
fn locks(cases: &[&CaseRecord]) -> Option<String> {
    let locks = find(cases, "locks of a write and a read, at least", Placement::SameCpu)?;
    let both = find(cases, "pipe to self, 1 byte", Placement::SameCpu)?;
    Some(format!(
        "  Joy: spl is nearly a third of a read or write. That cannot be told here: the locks of a write and a read take at least\n  \
         {} of {}, {}: their instructions as counted in the kernel's source, run in user mode, without masking\n  \
         interrupts. What they take in the kernel is not measured.",
        figure(locks.estimate, locks.unit),
        figure(both.estimate, both.unit),
        percent(locks.estimate / both.estimate)
    ))
}

/// Whether the choice of the next process depends on how many are runnable.
fn choice(cases: &[&CaseRecord]) -> Option<String> {
    let columns = ["choice by find-first-set", "choice by search", "switch by yield"];
    let header =
        ["  runnable", "find-first-set", "search of a table", "the kernel's switch by yield"];
    let mut table = aligned(header, [0, 1, 2, 3]);
    for count in [1, 2, 10, 100, 1_000] {
        let of = |column: &str| {
            let name = format!("{column}, {count} runnable");
            find(cases, &name, Placement::SameCpu)
        };
        let row = columns.map(|column| {
            of(column).map(|case| figure(case.estimate, case.unit)).unwrap_or_default()
        });
        if row.iter().any(|cell| !cell.is_empty()) {
            table.add_row(std::iter::once(format!("  {count}")).chain(row));
        }
    }
    let named = |name: &str| find(cases, name, Placement::SameCpu);
    let many = "1000 runnable";
    let ends = named(&format!("choice by search, {many}"))
        .zip(named(&format!("choice by find-first-set, {many}")));
    let said = ends.map(|(search, first)| {
        format!(
            "\n\n  Joy: find-first-set chooses faster than a search of the table. It {} here: of 1000, {:.0} times as fast.",
            claim(search, first),
            search.estimate / first.estimate
        )
    });
    filled(&table).map(|table| table + &said.unwrap_or_default())
}

/// Whether signals are slower than flags.
fn signals(cases: &[&CaseRecord]) -> Option<String> {
    let of = |name: &str| find(cases, name, Placement::SameCpu);
    let (kill, flags) = (of("switch by kill")?, of("switch by weir flags")?);
    Some(format!(
        "  Kashtan: processes meet a tenth as often by signals as by event flags (210 beside 2000 a second). That signals are\n  \
         slower {} here: they are {:.2} times as fast.",
        claim(kill, flags),
        flags.estimate / kill.estimate
    ))
}

/// A table of packets of 4 bytes per second.
pub fn ipc(cases: &[&CaseRecord]) -> Option<String> {
    let header = ["  4-byte packets a second", "to self", "one-way", "two-way", "", ""];
    let mut table = aligned(header, [1, 2, 3]);
    for line in lines(JOY_IPC) {
        let figures = line.figures.iter().map(|figure| figure.unwrap_or(0.0));
        let row = figures.map(|figure| format!("{figure:.0} /s"));
        table.add_row(std::iter::once(format!("  {} (Joy, 1980)", line.name)).chain(row));
    }
    let mechanisms =
        [("kernel pipe", "kernel-pipe"), ("record pipe", "weir-record"), ("mpx", "weir-mpx")];
    for (title, mechanism) in mechanisms {
        let of = |direction: &str| {
            find(cases, &format!("{direction} {mechanism} 4 B"), Placement::SameCpu)
        };
        let all: Option<Vec<&CaseRecord>> =
            ["self", "one-way", "two-way"].map(of).into_iter().collect();
        let Some(all) = all else { continue };
        let row = all.into_iter().map(|case| figure(case.estimate, case.unit));
        table.add_row(std::iter::once(format!("  {title}, here, same-cpu")).chain(row));
    }
    let places = [Placement::OtherCpu, Placement::SameCpu];
    let rates = both(cases, ["one-way weir-mpx 4 B", "one-way kernel-pipe 4 B"], &places);
    let said = rates.map(|(mpx, pipe)| {
        let holds = claim(mpx, pipe);
        format!(
            "\n\n  Joy: mpx can be made to operate at speeds greater than that of the pipe. It {holds} here: mpx moves\n  \
             {:.1} times the 4-byte packets of the kernel's pipe one way.",
            mpx.estimate / pipe.estimate
        )
    });
    (table.row_count() > 2).then(|| trimmed(&table) + &said.unwrap_or_default())
}

/// Whether files are read faster by larger blocks.
pub fn files(cases: &[&CaseRecord]) -> Option<String> {
    let of = |kind: &str, size: &str| {
        find(cases, &format!("{kind} sequential read, {size}"), Placement::SameCpu)
    };
    let said = |kind: &str, name: &str| {
        let (small, large) = (of(kind, "1 KiB")?, of(kind, "8 KiB")?);
        Some((claim(large, small), large.estimate / small.estimate, name.to_owned()))
    };
    let each: Vec<String> = [said("direct", "from the disk"), said("cached", "from memory")]
        .into_iter()
        .flatten()
        .map(|(holds, times, name)| format!("{name} it {holds}: {times:.1} times the rate"))
        .collect();
    (!each.is_empty()).then(|| {
        format!(
            "  Joy: larger blocks of the file system raise the rate of files. Reads of 8 KiB beside 1 KiB, here:\n  {}.",
            each.join(", ")
        )
    })
}

/// Whether regions that go out whole in turn get further than those that only lose pages.
pub fn swapping(cases: &[&CaseRecord]) -> Option<String> {
    let of =
        |rule: &str| find(cases, &format!("eight regions, {rule} goes, pages"), Placement::Free);
    let (four, alone) = (of("the oldest of the 4 largest")?, of("pages alone")?);
    let mut text = format!(
        "  Joy: jobs that do not fit together go out whole, the oldest of the n largest. That this gets further than pages\n  \
         alone {} here: {:.1} times the pages",
        claim(four, alone),
        four.estimate / alone.estimate
    );
    for (rule, name) in [("the oldest", "the oldest of all"), ("the largest", "the largest")] {
        if let Some(other) = of(rule) {
            text.push_str(&format!(
                ".\n  That it gets further than {name} {}: {:.2} times the pages",
                claim(four, other),
                four.estimate / other.estimate
            ));
        }
    }
    Some(text + ".")
}
