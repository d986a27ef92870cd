//! The report as one HTML page that contains its styles and drawings, and has no scripts and makes no
//! requests.
//!
//! - [`glossary`]: a summary, the suites, the placements.
//! - [`ratios`]: dots with intervals, for comparisons and for the self-test.
//! - [`curves`]: throughput by chunk, beside memcpy; distributions of samples.
//! - [`phases`]: Joy's system call, then and now.
//! - [`heat`]: every case over the time of the run.
//! - [`tables`]: all figures.

mod curves;
mod glossary;
mod heat;
mod phases;
pub mod ratios;
mod tables;
#[cfg(test)]
pub(crate) mod tests;

use crate::figure::figure as nice;
use maud::{Markup, html};
use weir_bench::engine::record::Report;
use weir_command::fault::Fault;
use weir_command::html::{self, document, nothing, section};
use weir_command::units::utc;

/// Writes the page.
pub fn html(report: &Report) -> Result<String, Fault> {
    let cannot =
        |error: weir_charts::DrawError| Fault::failed(format!("cannot draw the page: {error}"));
    let mut parts = vec![head(report), remarks(report), glossary::glossary(report)];
    parts.push(section("All figures", "", tables::tables(report)));
    parts.push(section(
        "Compared in pairs",
        "Each case against the baseline of its group, one ratio per process, from rounds in random \
         order. The bar is the 95 % interval; figures inside the shaded band count as the same. To \
         the right of 1 a time is longer or a rate is higher. The colour shows which is better.",
        ratios::comparisons(report).map_err(cannot)?,
    ));
    parts.push(section(
        "Throughput by chunk",
        "Throughput by the bytes of each write; both axes are logarithmic. The dashed line is memcpy on \
         one CPU, which no copy can exceed. Horizontal: bytes a write; vertical: bytes a second.",
        curves::chunks(report).map_err(cannot)?,
    ));
    parts.push(section(
        "A system call by phase",
        &format!(
            "Joy divided the system call of the VAX-11/780 into phases in 1980. Below it is this host's \
             read of 1000 bytes, divided by differences between calls. Each bar is the whole call. {}",
            super::beside::LOOK_UP
        ),
        phases::phases(report).map_err(cannot)?,
    ));
    parts.push(section(
        "A/A: the same case against itself",
        "One case of each group is measured twice. If the bar includes 1, the measurement is sound; \
         its width shows how small a difference this host can resolve.",
        ratios::self_test(report).map_err(cannot)?,
    ));
    parts.push(section(
        "Distributions",
        "All batches of the cases that vary most, and of round trips, relative to their median. A \
         steep line is a steady figure; a step in it is a second state of the host.",
        curves::distributions(report).map_err(cannot)?,
    ));
    parts.push(section(
        "The run over time",
        "Each row is a case, each column a part of the run. The colour shows how far its batches were \
         from the case's median. Vertical stripes come from the host.",
        heat::heat(report).map_err(cannot)?,
    ));
    parts.push(section("Left out", "", tables::notes(report)));
    parts.push(tables::host(report));
    let title = format!("weir bench, {}", utc(report.started_unix_s));
    Ok(document(&title, "", &html! { @for part in parts { (part) } }))
}

fn head(report: &Report) -> Markup {
    let host = &report.host;
    let kernel = host.kernel.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let state = &host.state;
    let seen = if state.text.is_empty() { "not known" } else { state.text.as_str() };
    let facts = [
        ("CPU", host.cpu.clone()),
        ("CPUs", format!("{} of {}", host.cpus_allowed.len(), host.cpus_online)),
        ("kernel", kernel),
        ("virtualisation", host.virtualisation.clone()),
        ("others on these CPUs", seen.to_owned()),
        ("load from the run", report.load.name().to_owned()),
        ("run", format!("{} UTC, {:.0} s", utc(report.started_unix_s), report.duration_s)),
        ("figures", report.cases.len().to_string()),
        ("reference step", nice(report.reference.median_ns, weir_bench::engine::params::Unit::Ns)),
    ];
    let mut warnings = Vec::new();
    if state.busy == Some(true) {
        warnings.push(format!(
            "The host was busy: {}. These are the figures of a busy host, not the best it can do.",
            state.text
        ));
    }
    if report.interrupted {
        let text = "The run was interrupted: this is what was measured so far.";
        warnings.push(text.to_owned());
    }
    html! {
        header {
            h1 { "weir bench" }
            p.lead { (glossary::summary(report)) }
            @for warning in warnings { p.warning { (warning) } }
            p { "How far to trust them: " (report.self_test.sentence) "." }
            (html::facts(facts))
        }
    }
}

fn remarks(report: &Report) -> Markup {
    if report.remarks.is_empty() {
        return nothing();
    }
    section("Surprising", "", html::remarks(report.remarks.iter().cloned()))
}
