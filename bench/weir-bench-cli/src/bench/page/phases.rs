//! Two bars: the parts of a system call as Joy measured them in 1980, and the phases on this host.

use crate::bench::beside::{first, in_read, phase_name, phases as measured};
use maud::{Markup, html};
use plotters::prelude::*;
use weir_bench::engine::record::Report;
use weir_charts::{
    Canvas, DrawError, FULL, HPos, OTHERS, SERIES, VPos, drawing, key, scrolled, text_style, titled,
};
use weir_command::html::nothing;
use weir_model::published::{JOY_SYSCALL, lines};

const BAR: i32 = 40;
const LEFT: i32 = 150;

/// The name of a part and its duration.
type PhasePart = (String, f64);

/// Draws the two bars; empty if the phases were not measured.
pub fn phases(report: &Report) -> Result<Markup, DrawError> {
    let of_suite = report.cases.iter().filter(|case| case.suite == "joy-syscall");
    let now: Vec<PhasePart> = measured(of_suite)
        .into_iter()
        .filter(|case| in_read(case))
        .map(|case| (phase_name(case).to_owned(), case.estimate.max(0.0)))
        .collect();
    if now.len() < 2 {
        return Ok(nothing());
    }
    let then = lines(JOY_SYSCALL).into_iter();
    let then: Vec<PhasePart> = then.map(|line| (line.name.to_owned(), first(&line))).collect();
    let svg = drawing(FULL, 130, |area| {
        bar(area, 8, "VAX-11/780, 1980", "us", &then, &SERIES)?;
        bar(area, 72, "this host", "ns", &now, &OTHERS)
    })?;
    let titles: Vec<String> = texts(&then, "us").into_iter().chain(texts(&now, "ns")).collect();
    let svg = scrolled(&titled(&svg, "rect", &titles));
    let (then, now) = (legend("1980", &then, "us", &SERIES), legend("now", &now, "ns", &OTHERS));
    Ok(html! { (svg) (then) (now) })
}

fn texts(parts: &[PhasePart], unit: &str) -> Vec<String> {
    parts.iter().map(|(name, value)| format!("{name} {value:.1} {unit}")).collect()
}

/// The key to a bar. The two bars have different phases, and no colour in common.
fn legend(when: &str, parts: &[PhasePart], unit: &str, colours: &[RGBColor]) -> Markup {
    let texts = texts(parts, unit);
    let entries: Vec<(RGBColor, &str)> =
        colours.iter().copied().zip(texts.iter().map(String::as_str)).collect();
    html! { p.why { (when) } (key(&entries)) }
}

fn bar(
    area: &Canvas<'_>,
    top: i32,
    name: &str,
    unit: &str,
    parts: &[PhasePart],
    colours: &[RGBColor],
) -> Result<(), DrawError> {
    let all: f64 = parts.iter().map(|(_, value)| value).sum();
    if all <= 0.0 {
        return Ok(());
    }
    let middle = top + BAR / 2;
    let above = text_style(area, 13, HPos::Right, VPos::Bottom);
    area.draw(&Text::new(name.to_owned(), (LEFT - 12, middle), above))?;
    let below = text_style(area, 13, HPos::Right, VPos::Top);
    area.draw(&Text::new(format!("{all:.0} {unit} in all"), (LEFT - 12, middle + 2), below))?;
    let scale = f64::from(FULL as i32 - LEFT - 8) / all;
    let inside = text_style(area, 12, HPos::Center, VPos::Center).color(&WHITE);
    let mut from = 0.0;
    for ((_, value), colour) in parts.iter().zip(colours.iter().cycle()) {
        let (x0, x1) = (from * scale, (from + value) * scale);
        let corners = [(LEFT + x0 as i32, top), (LEFT + x1 as i32 - 1, top + BAR)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        if x1 - x0 > 34.0 {
            let at = (LEFT + f64::midpoint(x0, x1) as i32, middle);
            area.draw(&Text::new(format!("{:.0} %", value / all * 100.0), at, inside.clone()))?;
        }
        from += value;
    }
    Ok(())
}
