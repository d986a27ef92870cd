//! The HTML that all pages of weir share: the page with its styles, sections, and
//! tables (`table`), whose elements nobody else writes.

mod table;

pub use table::{Cell, Column, Table};

use weir_policy::text::printable;

const STYLE: &str = include_str!("style.css");

/// A page with its styles, and with further ones.
pub fn document(title: &str, further: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}{further}</style>\n</head>\n<body>\n<main>\n{body}\
         </main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// A section of the page; empty if it has no content.
pub fn section(title: &str, why: &str, inside: String) -> String {
    if inside.is_empty() {
        return inside;
    }
    let why = if why.is_empty() { String::new() } else { format!("<p class=\"why\">{why}</p>\n") };
    format!("<section>\n<h2>{title}</h2>\n{why}{inside}</section>\n")
}

/// Width of a drawing as wide as the page.
pub const FULL: u32 = 1072;

/// A drawing that scrolls sideways if the page is too narrow for its text.
pub fn scrolled(svg: &str) -> String {
    format!("<div class=\"draw\">{svg}</div>\n")
}

/// A key to colours, each as red, green and blue.
pub fn key<'a>(entries: impl IntoIterator<Item = ([u8; 3], &'a str)>) -> String {
    let entries: String = entries
        .into_iter()
        .map(|([r, g, b], text)| {
            let text = escape(text);
            format!("<span><i style=\"background:#{r:02x}{g:02x}{b:02x}\"></i>{text}</span>")
        })
        .collect();
    format!("<div class=\"key\">{entries}</div>\n")
}

/// Formats a number without trailing zeros.
pub fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes text that others chose.
pub fn shown(text: &str) -> String {
    escape(&printable(text))
}
