//! A heat map of the run: how far the batches of each case were from its median, over time.

use maud::Markup;
use plotters::prelude::*;
use weir_bench::engine::estimate::median;
use weir_bench::engine::record::{CaseRecord, Report};
use weir_charts::{Canvas, DrawError, FULL, HPos, VPos, drawing, scrolled, text_style, trim};
use weir_command::html::nothing;
use weir_command::widths::cut;

const COLUMNS: usize = 110;
const ROW: i32 = 13;
const NAMES: i32 = 360;
/// The columns of a name that fit in front of the map.
const NAME_COLUMNS: usize = 66;
/// The most rows. If there are more cases, those with the widest intervals are shown.
const ROWS: usize = 60;
/// A difference of a quarter has the full colour.
const FULL_COLOUR: f64 = 0.25;

type HeatRow = (String, Vec<Option<f64>>);

/// Draws the map; empty without samples.
pub fn heat(report: &Report) -> Result<Markup, DrawError> {
    let at = report.cases.iter().flat_map(|case| &case.beside.at_s);
    let end_s = at.copied().filter(|at| at.is_finite()).fold(0.0, f64::max) + 1e-3;
    let sound = |case: &&CaseRecord| {
        case.samples.len() >= 10 && median(&case.samples) > 0.0 && !case.below_resolution
    };
    let mut cases: Vec<&CaseRecord> = report.cases.iter().filter(sound).collect();
    if cases.is_empty() {
        return Ok(nothing());
    }
    if cases.len() > ROWS {
        cases.sort_by(|a, b| b.relative_width().total_cmp(&a.relative_width()));
        cases.truncate(ROWS);
        cases.sort_by_key(|case| case.key());
    }
    let mut rows = vec![reference(report, end_s)];
    rows.extend(cases.iter().map(|case| row(case, end_s)));
    let height = (ROW * rows.len() as i32 + 60) as u32;
    Ok(scrolled(&drawing(FULL, height, |area| paint(area, &rows, end_s))?))
}

/// The median of the values in each column.
fn binned(samples: impl Iterator<Item = (f64, f64)>, end_s: f64) -> Vec<Option<f64>> {
    let mut bins: Vec<Vec<f64>> = vec![Vec::new(); COLUMNS];
    for (at_s, value) in samples {
        let bin = (at_s / end_s * COLUMNS as f64) as usize;
        bins[bin.min(COLUMNS - 1)].push(value);
    }
    bins.iter().map(|bin| (!bin.is_empty()).then(|| median(bin))).collect()
}

fn reference(report: &Report, end_s: f64) -> HeatRow {
    let steps = report.cases.iter().flat_map(|case| {
        case.beside.at_s.iter().copied().zip(case.beside.reference_ns.iter().copied())
    });
    let middle = report.reference.median_ns;
    let steps = steps.map(|(at, step)| (at, step / middle));
    (String::from("reference loop"), binned(steps, end_s))
}

fn row(case: &CaseRecord, end_s: f64) -> HeatRow {
    let middle = median(&case.samples);
    let slower = |sample: f64| match case.unit.more_is_better() {
        true if sample > 0.0 => middle / sample,
        _ => sample / middle,
    };
    let samples = case.beside.at_s.iter().copied().zip(case.samples.iter().map(|s| slower(*s)));
    let far = if case.stratum.as_deref() == Some("far") { ", far" } else { "" };
    let name = format!("{}: {} ({}{far})", case.suite, case.case, case.placement);
    (name, binned(samples, end_s))
}

/// Blue is faster than usual, red is slower, grey is as usual.
fn colour(ratio: f64) -> RGBColor {
    const USUAL: (f64, f64, f64) = (222.0, 225.0, 230.0);
    let strength = (ratio.ln() / (1.0 + FULL_COLOUR).ln()).clamp(-1.0, 1.0);
    let to = if strength > 0.0 { (200.0, 50.0, 20.0) } else { (20.0, 90.0, 190.0) };
    let share = strength.abs();
    let mix = |from: f64, to: f64| (from + (to - from) * share) as u8;
    RGBColor(mix(USUAL.0, to.0), mix(USUAL.1, to.1), mix(USUAL.2, to.2))
}

fn paint(area: &Canvas<'_>, rows: &[HeatRow], seconds: f64) -> Result<(), DrawError> {
    let style = text_style(area, 11, HPos::Right, VPos::Center);
    let width = f64::from(FULL as i32 - NAMES - 10) / COLUMNS as f64;
    let x = |column: usize| NAMES + (column as f64 * width) as i32;
    for (index, (name, cells)) in rows.iter().enumerate() {
        let top = 4 + index as i32 * ROW + if index > 0 { 6 } else { 0 };
        let short = cut(name, NAME_COLUMNS);
        area.draw(&Text::new(short, (NAMES - 8, top + ROW / 2), style.clone()))?;
        for (column, ratio) in cells.iter().enumerate() {
            let Some(ratio) = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0) else {
                continue;
            };
            let corners = [(x(column), top), (x(column + 1), top + ROW - 1)];
            area.draw(&Rectangle::new(corners, colour(ratio).filled()))?;
        }
    }
    let bottom = 4 + rows.len() as i32 * ROW + 12;
    let below = text_style(area, 11, HPos::Center, VPos::Top);
    for tick in 0..=5 {
        let at = NAMES + (f64::from(tick) / 5.0 * width * COLUMNS as f64) as i32;
        let text = format!("{} s", trim((f64::from(tick) / 5.0 * seconds).round()));
        area.draw(&Text::new(text, (at.min(FULL as i32 - 16), bottom), below.clone()))?;
    }
    scale(area, bottom + 18)
}

/// Draws the key to the colours.
fn scale(area: &Canvas<'_>, top: i32) -> Result<(), DrawError> {
    let style = text_style(area, 11, HPos::Left, VPos::Center);
    for step in 0..40 {
        let ratio = (1.0 + FULL_COLOUR).powf(f64::from(step) / 19.5 - 1.0);
        let left = NAMES + 120 + step * 4;
        area.draw(&Rectangle::new([(left, top), (left + 4, top + 10)], colour(ratio).filled()))?;
    }
    area.draw(&Text::new("a fifth faster", (NAMES + 36, top + 5), style.clone()))?;
    area.draw(&Text::new("a quarter slower", (NAMES + 288, top + 5), style))?;
    Ok(())
}
