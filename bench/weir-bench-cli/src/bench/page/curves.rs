//! Throughput by chunk, and distributions of samples.

use crate::bench::table::{is_shown, place};
use maud::{Markup, PreEscaped, html};
use plotters::prelude::*;
use std::collections::BTreeMap;
use weir_bench::engine::estimate::median;
use weir_bench::engine::params::Unit;
use weir_bench::engine::record::{CaseRecord, Report};
use weir_charts::ratios::{scale, ticks};
use weir_charts::{
    DrawError, GRID, HALF, SERIES, bytes, drawing, figure, key, range, rate, scrolled, titled, trim,
};
use weir_command::html::nothing;

/// The least number of sizes in a curve.
const POINTS_MIN: usize = 3;
const HEIGHT: u32 = 300;
/// The number of distributions shown.
const DISTRIBUTIONS: usize = 6;

/// Points of each series.
type Panel = BTreeMap<String, Vec<(f64, f64)>>;
type Curve = (String, Vec<(f64, f64)>);

/// Draws each suite and placement that has curves.
pub fn chunks(report: &Report) -> Result<Markup, DrawError> {
    let mut panels: BTreeMap<(String, String), Panel> = BTreeMap::new();
    for case in report.cases.iter().filter(|case| is_shown(case, report)) {
        let Some((x, series)) = point(case) else { continue };
        let panel = panels.entry((case.suite.clone(), case.placement.to_string())).or_default();
        panel.entry(series).or_default().push((x, case.estimate));
    }
    let copy = memcpy(&report.cases);
    let mut figures = Vec::new();
    for ((suite, placement), series) in panels {
        let mut curves: Vec<Curve> =
            series.into_iter().filter(|(_, points)| points.len() >= POINTS_MIN).collect();
        if curves.is_empty() || suite == "limits" {
            continue;
        }
        let all = curves.len();
        curves.truncate(SERIES.len());
        curves.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let svg = curve_chart(&curves, &copy)?;
        let titles: Vec<String> =
            curves.iter().flat_map(|(name, points)| points_of(name, points)).collect();
        let svg = titled(&svg, "circle", &titles);
        let names: Vec<(RGBColor, &str)> =
            SERIES.iter().copied().zip(curves.iter().map(|(name, _)| name.as_str())).collect();
        let mut caption = format!("{suite} at {placement}");
        if all > curves.len() {
            caption += &format!(" (the first {} of {all} curves)", curves.len());
        }
        figures.push(figure(&caption, html! { (key(&names)) (PreEscaped(svg)) }));
    }
    if figures.is_empty() {
        return Ok(nothing());
    }
    Ok(html! { div.grid { @for figure in figures { (figure) } } })
}

fn points_of(name: &str, points: &[(f64, f64)]) -> Vec<String> {
    points.iter().map(|(x, y)| format!("{name}, {} B a write: {}", bytes(*x), rate(*y))).collect()
}

/// The chunk of a case, and its curve: the other parameters of the case.
fn point(case: &CaseRecord) -> Option<(f64, String)> {
    let sound = case.unit == Unit::MegabytesPerSecond && case.estimate > 0.0;
    let chunk = case.params.chunk_bytes.filter(|_| sound)?;
    let params = &case.params;
    let mut words: Vec<String> = Vec::new();
    words.extend(params.mechanism.clone());
    words.extend(params.operation.clone());
    words.extend(params.access.clone());
    words.extend(params.pattern.clone());
    words.extend(params.writers.filter(|writers| *writers > 1).map(|n| format!("{n} writers")));
    words.extend(params.parties.map(|n| format!("{n} parties")));
    words.extend(params.compute.map(|us| format!("{us} us")));
    words.extend(params.pipe_bytes.map(|size| format!("pipe {}", bytes(size as f64))));
    words.extend(params.segment_bytes.map(|size| format!("segment {}", bytes(size as f64))));
    words.extend(params.window.map(|count| format!("window {count}")));
    words.extend(params.device.clone());
    if case.stratum.as_deref() == Some("far") {
        words.push(String::from("far"));
    }
    Some((chunk as f64, words.join(", ")))
}

fn memcpy(cases: &[CaseRecord]) -> Vec<(f64, f64)> {
    let copies = cases.iter().filter(|case| case.params.operation.as_deref() == Some("copy"));
    let copies = copies.filter(|case| case.suite == "limits");
    let mut points: Vec<(f64, f64)> =
        copies.filter_map(|case| Some((case.params.chunk_bytes? as f64, case.estimate))).collect();
    points.retain(|(_, rate)| rate.is_finite() && *rate > 0.0);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn curve_chart(curves: &[Curve], copy: &[(f64, f64)]) -> Result<String, DrawError> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let Some((left, right)) = range(points().map(|(x, _)| *x)) else { return Ok(String::new()) };
    let ceiling = range(copy.iter().map(|(_, y)| *y)).map(|(_, high)| high);
    let Some((low, high)) = range(points().map(|(_, y)| *y).chain(ceiling)) else {
        return Ok(String::new());
    };
    drawing(HALF, HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(
                (left / 1.2..right * 1.2).log_scale().base(2.0),
                (low / 1.4..high * 1.4).log_scale(),
            )?;
        chart
            .configure_mesh()
            .x_labels(9)
            .y_labels(6)
            .x_label_formatter(&|x| format!("{} B", bytes(*x)))
            .y_label_formatter(&|y| rate(*y))
            .label_style(("sans-serif", 12))
            .axis_style(GRID)
            .bold_line_style(GRID.mix(0.25))
            .light_line_style(TRANSPARENT)
            .draw()?;
        // Beyond the sizes that were copied, the line is level.
        if let (Some(first), Some(last)) = (copy.first(), copy.last()) {
            let inside = copy.iter().copied().filter(|(x, _)| (left..=right).contains(x));
            let begin = (left, first.1);
            let line =
                std::iter::once(begin).chain(inside).chain([(right, level(copy, right, *last))]);
            chart.draw_series(DashedLineSeries::new(line, 5, 4, GRID.stroke_width(2)))?;
        }
        for ((_, points), colour) in curves.iter().zip(SERIES) {
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line.point_size(3))?;
        }
        Ok(())
    })
}

/// The height of the line at `x`: that of the next smaller size.
fn level(copy: &[(f64, f64)], x: f64, last: (f64, f64)) -> f64 {
    copy.iter().rfind(|(size, _)| *size <= x).map_or(last.1, |(_, y)| *y)
}

/// Draws empirical distribution functions of the samples of some cases, relative to their medians.
pub fn distributions(report: &Report) -> Result<Markup, DrawError> {
    let sound = |case: &&CaseRecord| {
        case.samples.len() >= 30 && case.low > 0.0 && case.samples.iter().all(|s| *s > 0.0)
    };
    let mut chosen: Vec<&CaseRecord> = report.cases.iter().filter(sound).collect();
    chosen.sort_by(|a, b| b.relative_width().total_cmp(&a.relative_width()));
    let trips = |case: &&&CaseRecord| case.params.direction.as_deref() == Some("two-way");
    let round_trips: Vec<&CaseRecord> = chosen.iter().filter(trips).copied().take(3).collect();
    let key_of = |case: &CaseRecord| case.key();
    let widest = chosen
        .iter()
        .filter(|case| round_trips.iter().all(|trip| key_of(trip) != key_of(case)))
        .take(DISTRIBUTIONS - round_trips.len());
    let cases: Vec<&CaseRecord> = widest.copied().chain(round_trips.iter().copied()).collect();
    if cases.is_empty() {
        return Ok(nothing());
    }
    let curves: Vec<Curve> = cases.iter().map(|case| distribution(case)).collect();
    let names: Vec<(RGBColor, &str)> =
        SERIES.iter().copied().zip(curves.iter().map(|(name, _)| name.as_str())).collect();
    let (low, high) = reach(&curves);
    let svg = drawing(weir_charts::FULL, 320, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .x_label_area_size(34)
            .y_label_area_size(60)
            .build_cartesian_2d((low..high).log_scale(), 0.0..1.0)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            // Those of `scale` are below.
            .x_label_formatter(&|_| String::new())
            .y_labels(5)
            .y_label_formatter(&|y| format!("{:.0} %", y * 100.0))
            .label_style(("sans-serif", 12))
            .axis_style(GRID)
            .bold_line_style(GRID.mix(0.25))
            .light_line_style(TRANSPARENT)
            .draw()?;
        let ticks = ticks(low, high);
        for tick in &ticks {
            chart.draw_series([PathElement::new([(*tick, 0.0), (*tick, 1.0)], GRID.mix(0.25))])?;
        }
        for ((_, points), colour) in curves.iter().zip(SERIES) {
            let inside = points.iter().map(|(x, y)| (x.clamp(low, high), *y));
            chart.draw_series(LineSeries::new(inside, colour.stroke_width(2)))?;
        }
        let places: Vec<(i32, f64)> =
            ticks.iter().map(|tick| (chart.backend_coord(&(*tick, 0.0)).0, *tick)).collect();
        scale(area, &places, 290)
    })?;
    let outside = curves
        .iter()
        .flat_map(|(_, points)| points)
        .filter(|(x, _)| !(low..=high).contains(x))
        .count();
    let rest = match outside {
        0 => nothing(),
        count => {
            let (low, high) = (trim(low), trim(high));
            let who = if count == 1 { "1 batch lies" } else { &format!("{count} batches lie") };
            let drawn = if count == 1 { "is drawn at the end" } else { "are drawn at the ends" };
            html! { p.why { (who) " outside of " (low) "x to " (high) "x and " (drawn) "." } }
        }
    };
    Ok(html! { (key(&names)) (scrolled(&svg)) (rest) })
}

/// The range of the axis: nearly all batches, but at most a factor of ten.
fn reach(curves: &[Curve]) -> (f64, f64) {
    let all: Vec<f64> = curves.iter().flat_map(|(_, points)| points).map(|(x, _)| *x).collect();
    let end = |share: f64| weir_bench::engine::estimate::quantile(&all, share);
    (end(0.005).clamp(0.1, 0.8) / 1.05, end(0.995).clamp(1.25, 10.0) * 1.05)
}

fn distribution(case: &CaseRecord) -> Curve {
    let middle = median(&case.samples);
    let mut samples: Vec<f64> = case.samples.iter().map(|sample| sample / middle).collect();
    samples.sort_unstable_by(f64::total_cmp);
    let count = samples.len() as f64;
    let points = samples.iter().enumerate();
    let points = points.map(|(at, x)| (*x, (at as f64 + 0.5) / count)).collect();
    (format!("{}: {} ({})", case.suite, case.case, place(case)), points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::tests::case;

    /// A figure that the tables leave out was a point of a curve.
    #[test]
    fn what_is_too_vague_is_no_point() {
        let mut report = crate::bench::page::tests::report();
        for bytes in [64, 512, 4096, 65_536] {
            report.cases.push(case("stream", bytes as f64, Some(bytes)));
        }
        let html = chunks(&report).expect("drawn").into_string();
        assert!(html.contains("512 B a write"), "{html}");
        (report.cases[1].low, report.cases[1].high) = (1.0, 5_000.0);
        let html = chunks(&report).expect("drawn").into_string();
        assert!(html.contains("4K B a write") && !html.contains("512 B a write"), "{html}");
    }

    /// "1.0" stood over "1x", and "1 batches lie".
    #[test]
    fn a_distribution_has_one_label_at_a_place_and_counts_one_batch_as_one() {
        let mut report = crate::bench::page::tests::report();
        let mut odd = case("trip", 2.0, None);
        odd.samples[7] = 99.0;
        report.cases.push(odd);
        let html = distributions(&report).expect("drawn").into_string();
        assert!(html.contains(">\n1x\n<") && !html.contains(">\n1.0\n<"), "{html}");
        assert!(
            html.contains("1 batch lies outside of") && html.contains("is drawn at the end."),
            "{html}"
        );
    }

    /// Both states of the line had one name.
    #[test]
    fn a_distribution_names_its_state() {
        let far = CaseRecord { stratum: Some("far".into()), ..case("trip", 2.0, None) };
        assert_ne!(distribution(&far).0, distribution(&case("trip", 2.0, None)).0);
    }

    /// Blocks and streams through a pipe were one curve, which had two rates for each size.
    #[test]
    fn a_curve_has_one_rate_for_a_size() {
        for suite in weir_bench::catalogue() {
            let mut curves: BTreeMap<String, Vec<u64>> = BTreeMap::new();
            for measured in suite.groups.iter().flat_map(|group| &group.cases) {
                for measure in &measured.measures {
                    let (params, unit) = (measured.params.clone(), measure.unit);
                    let record = CaseRecord { params, unit, ..case(&measured.name, 2.0, None) };
                    if let Some((size, series)) = point(&record) {
                        curves.entry(series).or_default().push(size as u64);
                    }
                }
            }
            for (series, sizes) in curves.iter().filter(|(_, sizes)| sizes.len() >= POINTS_MIN) {
                let distinct = std::collections::BTreeSet::from_iter(sizes.iter().copied()).len();
                assert_eq!(distinct, sizes.len(), "{}: {series}", suite.name);
            }
        }
    }
}
