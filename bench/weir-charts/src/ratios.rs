//! Ratios as dots with their intervals, one per row, on a logarithmic axis around 1.

use crate::{
    BAD, Canvas, DrawError, FULL, GRID, HPos, SAME, VPos, drawing, figure, scrolled, text_style,
    titled, trim,
};
use maud::Markup;
use plotters::prelude::*;
use weir_command::html::nothing;
use weir_command::widths::cut;

const ROW: u32 = 20;
const NAMES: u32 = 380;
/// The columns of a name that fit in front of the axis.
const NAME_COLUMNS: usize = 65;

/// A ratio with its interval.
#[derive(Debug)]
pub struct Dot {
    name: String,
    ratio: f64,
    low: f64,
    high: f64,
    colour: RGBColor,
}

/// Draws ratios without intervals, and a band around 1.
pub fn beside(ratios: &[(String, f64)], band: f64) -> Result<Markup, DrawError> {
    let near = (1.0 / (1.0 + band))..=(1.0 + band);
    let of = |(name, ratio): &(String, f64)| {
        let colour = if near.contains(ratio) { SAME } else { BAD };
        dot(name.clone(), *ratio, *ratio, *ratio, colour)
    };
    chart("", &ratios.iter().filter_map(of).collect::<Vec<_>>(), Some(band))
}

/// A ratio with its interval; `None` if it cannot be drawn.
pub fn dot(name: String, ratio: f64, low: f64, high: f64, colour: RGBColor) -> Option<Dot> {
    let sound = [ratio, low, high].iter().all(|value| value.is_finite() && *value > 0.0);
    sound.then_some(Dot { name, ratio, low, high, colour })
}

/// Draws ratios, one per row; with a caption, as a figure.
pub fn chart(caption: &str, dots: &[Dot], band: Option<f64>) -> Result<Markup, DrawError> {
    if dots.is_empty() {
        return Ok(nothing());
    }
    // The axis reaches equally far to both sides, so that 1 is in the middle.
    let far = dots.iter().flat_map(|dot| [dot.high, 1.0 / dot.low]).fold(1.02, f64::max) * 1.05;
    let low = dots.iter().map(|dot| dot.low).fold(1.0, f64::min).min(0.98) / 1.05;
    let high = dots.iter().map(|dot| dot.high).fold(1.0, f64::max).max(1.02) * 1.05;
    let (low, high) = if far < 1.5 { (1.0 / far, far) } else { (low, high) };
    // For the space above the first row and below the last, see `paint`.
    let height = ROW * dots.len() as u32 + 34;
    let svg = drawing(FULL, height, |area| paint(area, dots, band, low, high))?;
    let title =
        |dot: &Dot| format!("{}: {:.3}x ({:.3} to {:.3})", dot.name, dot.ratio, dot.low, dot.high);
    let svg = scrolled(&titled(&svg, "circle", &dots.iter().map(title).collect::<Vec<_>>()));
    Ok(if caption.is_empty() { svg } else { figure(caption, svg) })
}

fn paint(
    area: &Canvas<'_>,
    dots: &[Dot],
    band: Option<f64>,
    low: f64,
    high: f64,
) -> Result<(), DrawError> {
    let rows = dots.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_top(4)
        .x_label_area_size(30)
        .y_label_area_size(NAMES)
        .build_cartesian_2d((low..high).log_scale(), rows..0.0)?;
    for tick in ticks(low, high) {
        chart.draw_series([PathElement::new([(tick, 0.0), (tick, rows)], GRID.mix(0.3))])?;
    }
    if let Some(band) = band {
        let corners = [(1.0 / (1.0 + band), 0.0), (1.0 + band, rows)];
        chart.draw_series([Rectangle::new(corners, SAME.mix(0.14).filled())])?;
    }
    chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, rows)], GRID.stroke_width(1))])?;
    for (row, dot) in dots.iter().enumerate() {
        let y = row as f64 + 0.5;
        let bar = PathElement::new([(dot.low, y), (dot.high, y)], dot.colour.stroke_width(3));
        chart.draw_series([bar])?;
        chart.draw_series([Circle::new((dot.ratio, y), 4, dot.colour.filled())])?;
    }
    let places: Vec<(i32, f64)> = ticks(low, high)
        .into_iter()
        .map(|tick| (chart.backend_coord(&(tick, rows)).0, tick))
        .collect();
    scale(area, &places, 4 + (dots.len() as u32 * ROW) as i32 + 8)?;
    names(area, dots)
}

/// Round ratios between the ends, as many as fit.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    const ROUND: [f64; 27] = [
        0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02,
        1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0,
    ];
    // Two labels closer than this share of the axis would touch.
    let apart = (high / low).ln() / 14.0;
    let mut ticks: Vec<f64> = vec![1.0];
    let mut inside: Vec<f64> =
        ROUND.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
    inside.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
    inside.reverse();
    for tick in inside {
        if ticks.iter().all(|other| (tick.ln() - other.ln()).abs() >= apart) {
            ticks.push(tick);
        }
    }
    ticks
}

/// Draws the labels of an axis.
pub fn scale(area: &Canvas<'_>, places: &[(i32, f64)], top: i32) -> Result<(), DrawError> {
    let style = text_style(area, 12, HPos::Center, VPos::Top);
    for (x, tick) in places {
        area.draw(&Text::new(format!("{}x", trim(*tick)), (*x, top), style.clone()))?;
    }
    Ok(())
}

/// Draws the names to the left of the axis, aligned to the right.
fn names(area: &Canvas<'_>, dots: &[Dot]) -> Result<(), DrawError> {
    let style = text_style(area, 13, HPos::Right, VPos::Center);
    for (row, dot) in dots.iter().enumerate() {
        let name = cut(&dot.name, NAME_COLUMNS);
        let at = (NAMES as i32 - 12, 4 + (row as u32 * ROW + ROW / 2) as i32);
        area.draw(&Text::new(name, at, style.clone()))?;
    }
    Ok(())
}
