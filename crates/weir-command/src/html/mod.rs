//! The HTML that all pages of weir share: the page with its styles, sections, and tables (`table`).
//! maud escapes what they show.

mod table;

pub use table::{Cell, Column, Table};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_policy::text::printable;

const STYLE: &str = include_str!("style.css");

/// A page with its styles, and with further ones.
pub fn document(title: &str, further: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(further)) }
            }
            body { main { (body) } }
        }
    };
    page.into_string() + "\n"
}

/// A section of the page; empty if it has no content.
pub fn section(title: &str, why: &str, inside: Markup) -> Markup {
    if is_empty(&inside) {
        return inside;
    }
    html! {
        section {
            h2 { (title) }
            @if !why.is_empty() { p.why { (why) } }
            (inside)
        }
    }
}

/// Nothing.
pub fn nothing() -> Markup {
    PreEscaped(String::new())
}

/// Whether there is nothing.
pub fn is_empty(markup: &Markup) -> bool {
    markup.0.is_empty()
}

/// A part of the page that opens; empty if it has no content.
pub fn folded(summary: &str, inside: Markup) -> Markup {
    if is_empty(&inside) {
        return inside;
    }
    html! { details { summary { (summary) } (inside) } }
}

/// What is known of a thing: the name of each fact and its value.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                div { dt { (name) } dd { (printable(&value)) } }
            }
        }
    }
}

/// A list of remarks, which others may have chosen words of.
pub fn remarks(texts: impl IntoIterator<Item = String>) -> Markup {
    html! { ul.remarks { @for text in texts { li { (printable(&text)) } } } }
}

/// Width of a drawing as wide as the page.
pub const FULL: u32 = 1072;

/// A drawing that scrolls sideways if the page is too narrow for its text.
pub fn scrolled(svg: &str) -> Markup {
    html! { div.draw { (PreEscaped(svg)) } }
}

/// A key to colours, each as red, green and blue.
pub fn key<'a>(entries: impl IntoIterator<Item = ([u8; 3], &'a str)>) -> Markup {
    html! {
        div.key {
            @for (colour, text) in entries {
                span { i style={ "background:" (hex(colour)) } {} (text) }
            }
        }
    }
}

/// A colour as pages write it.
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Formats a number without trailing zeros.
pub fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
