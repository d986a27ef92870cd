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

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes text that others chose.
pub fn shown(text: &str) -> String {
    escape(&printable(text))
}
