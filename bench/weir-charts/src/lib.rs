//! Charts of weir's pages: colours, texts and helpers that the drawings share, and [`ratios`].

#![forbid(unsafe_code)]

pub mod ratios;

use maud::{Markup, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::Pos;
pub use plotters::style::text_anchor::{HPos, VPos};
use weir_command::html;
pub use weir_command::html::{FULL, scrolled, trim};

/// Why a drawing failed.
pub type DrawError = Box<dyn std::error::Error>;

/// The area of a drawing.
pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of one of two drawings side by side.
pub const HALF: u32 = 524;
/// Colour of grid lines, visible on white and on black.
pub const GRID: RGBColor = RGBColor(0x9a, 0xa1, 0xab);
/// Colours of series, distinct for people who confuse red and green, too (Okabe and Ito).
pub const SERIES: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x80, 0x6a, 0x4d),
    RGBColor(0x7a, 0x7f, 0x87),
];
/// Colours of a second set of series, none of them in the first set (Tol's muted colours).
pub const OTHERS: [RGBColor; 8] = [
    RGBColor(0x33, 0x22, 0x88),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x11, 0x77, 0x33),
    RGBColor(0xcc, 0x66, 0x77),
    RGBColor(0x99, 0x99, 0x33),
    RGBColor(0x44, 0xaa, 0x99),
    RGBColor(0xaa, 0x44, 0x99),
    RGBColor(0x66, 0x11, 0x00),
];
/// A better figure.
pub const GOOD: RGBColor = RGBColor(0x1f, 0x93, 0x60);
/// A worse figure.
pub const BAD: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
/// An equivalent figure.
pub const SAME: RGBColor = RGBColor(0x5b, 0x84, 0xb1);
/// An inconclusive figure.
pub const UNKNOWN: RGBColor = RGBColor(0x9a, 0xa1, 0xab);

/// Draws on a new area of `width` by `height` pixels, and returns the SVG.
pub fn drawing(
    width: u32,
    height: u32,
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        paint(&area)?;
        area.present()?;
    }
    // The style sheet of the page sets the colour of text.
    Ok(svg.replace(" fill=\"#000000\"", ""))
}

/// A style for text of this size, placed relative to its point.
pub fn text_style<'a>(canvas: &Canvas<'_>, size: u32, x: HPos, y: VPos) -> TextStyle<'a> {
    ("sans-serif", size).into_text_style(canvas).pos(Pos::new(x, y))
}

/// Gives the elements of this name in a drawing their titles, in order. Browsers show a title at the
/// pointer.
pub fn titled(svg: &str, element: &str, titles: &[String]) -> String {
    let opening = format!("<{element} ");
    let mut parts = svg.split(&opening);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut titles = titles.iter();
    for part in parts {
        text += &opening;
        match (part.split_once("/>"), titles.next()) {
            (Some((attributes, rest)), Some(title)) => {
                let title = html! { title { (title) } }.into_string();
                text += &format!("{attributes}>{title}</{element}>{rest}");
            }
            _ => text += part,
        }
    }
    text
}

/// A key to the colours.
pub fn key(entries: &[(RGBColor, &str)]) -> Markup {
    html::key(entries.iter().map(|(RGBColor(r, g, b), text)| ([*r, *g, *b], *text)))
}

/// A drawing, and what explains it, with its caption.
pub fn figure(caption: &str, inside: Markup) -> Markup {
    html! { figure { figcaption { (caption) } (inside) } }
}

/// Formats a size as "64", "1428", "4K" or "1M".
pub fn bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 1_048_576.0 && b % 1_048_576.0 == 0.0 => format!("{:.0}M", b / 1_048_576.0),
        b if b >= 1_024.0 && b % 1_024.0 == 0.0 => format!("{:.0}K", b / 1_024.0),
        b => format!("{b:.0}"),
    }
}

/// Formats a throughput at an axis.
pub fn rate(megabytes_per_s: f64) -> String {
    match megabytes_per_s {
        v if v >= 1_000.0 => format!("{} GB/s", trim(v / 1_000.0)),
        v => format!("{} MB/s", trim(v)),
    }
}

/// The least and the greatest of the finite values above 0.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite() && *value > 0.0).fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}
