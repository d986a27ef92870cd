//! The `weir` command: find out where the time goes between your processes, and take it back.
//!
//! Each verb has a file or folder: `run`, `stat`, `tune`, `port`, `buffer`, `why`, `top`. They share
//! `args` (the command line), `shell` (cuts a pipeline's text into stages) and `report` (the report of
//! a run); what they share with other binaries is in `weir-command`. `products` runs those binaries,
//! and makes completions and manual pages of all of them.

#![forbid(unsafe_code)]

mod args;
mod buffer;
mod files;
mod metrics;
mod port;
mod processes;
mod products;
mod report;
mod run;
mod shell;
mod stat;
mod top;
mod tune;
mod why;

use args::Verb;
use std::ffi::OsString;
use std::process::ExitCode;
use weir_command::product::{end, name_process};

fn main() -> ExitCode {
    name_process("weir");
    if let Some(words) = args::shell_words() {
        return end(run::sh(words));
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(fault) = products::run(&args) {
        return end(Err(fault));
    }
    let options = match args::parse(&args) {
        Ok(options) => options,
        Err(fault) => return end(Err(fault)),
    };
    end(match options.command {
        Verb::Run(run) => run::run(&run),
        Verb::Sh(options) => run::sh(options.words),
        Verb::Why(options) => why::why(&options),
        Verb::Watch(options) => run::watch_running(&options),
        Verb::Top(options) => top::top(&options),
        Verb::Stat(options) => stat::stat(&options),
        Verb::Tune(options) => tune::tune(&options),
        Verb::Port(command) => port::port(&command),
        Verb::Buffer(options) => buffer::buffer(&options),
        Verb::Completions(completions) => products::completions(args::command(), completions.shell),
        Verb::Man(man) => products::man(args::command(), man.out.as_deref()),
    })
}
