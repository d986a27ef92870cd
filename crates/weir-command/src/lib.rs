//! What the commands of weir share: `weir` itself, `weir-bench`, `weir-net` and `weir-model`.
//!
//! - [`product`]: the start of a command, from its arguments to its exit status.
//! - [`command_line`], [`manual`], [`pages`]: reading arguments, help, completions and manual pages.
//! - [`fault`], [`status`]: errors, and exit statuses of programs that were started.
//! - [`output`], [`json`], [`json_option`]: text for people and JSON for programs.
//! - [`html`], [`widths`], [`terminal`], [`units`]: pages, what fits and what may be drawn, figures.
//! - [`signals`]: what ends a verb. [`ends`]: standard input and output without waiting.
//! - [`places`]: files that are kept. [`sys`]: the state before `main`.

#![deny(unsafe_code)]

pub mod command_line;
pub mod ends;
pub mod fault;
pub mod html;
pub mod json;
pub mod json_option;
pub mod manual;
pub mod output;
pub mod pages;
pub mod places;
pub mod product;
pub mod signals;
pub mod status;
#[allow(unsafe_code, reason = "what the kernel and the Rust runtime did before main")]
pub mod sys;
pub mod terminal;
pub mod units;
pub mod widths;
