//! The verbs of the `weir` command.
//!
//! Each verb has a file or folder: `run`, `bench`, `compare`, `history`, `stat`, `tune`, `port`,
//! `buffer`, `net`, `model`, `why`, `top`, `pages` (completions and manual pages). They share
//! `args` (the command line), `shell` (cuts a pipeline's text into stages), `report` (the report of
//! a run), `html` (what their pages share), `json` and `output` (the output of all verbs), `signals`
//! (what ends a verb), `terminal` and `widths` (what fits, and what may be drawn), `places` (files that are kept), and `fault` (errors).

#![forbid(unsafe_code)]

mod args;
mod bench;
mod buffer;
mod compare;
mod fault;
mod history;
mod html;
mod json;
mod model;
mod net;
mod output;
mod pages;
mod places;
mod port;
mod report;
mod run;
mod shell;
mod signals;
mod stat;
mod terminal;
mod top;
mod tune;
mod units;
mod why;
mod widths;

use args::Verb;
use std::process::ExitCode;

/// Runs the command with the arguments of this process, and returns the exit status.
pub fn main() -> ExitCode {
    // A process that weir starts through /proc/self/exe is named "exe" in ps and in weir net stat.
    if rustix::thread::name().is_ok_and(|name| name.as_c_str() == c"exe") {
        let _ = rustix::thread::set_name(c"weir");
    }
    // weir bench starts itself with this word; it is not a verb for people.
    if std::env::args_os().skip(1).eq([bench::CELL]) {
        return end(bench::cell());
    }
    if let Some(words) = args::shell_words() {
        return end(run::sh(words));
    }
    let options = match args::parse() {
        Ok(options) => options,
        Err(fault) => return end(Err(fault)),
    };
    end(match options.command {
        Verb::Run(run) => run::run(&run),
        Verb::Sh(options) => run::sh(options.words),
        Verb::Why(options) => why::why(&options),
        Verb::Watch(options) => run::watch_running(&options),
        Verb::Top(options) => top::top(&options),
        Verb::Bench(options) => bench::bench(&options),
        Verb::Compare(options) => compare::compare(&options),
        Verb::History(options) => history::history(&options),
        Verb::Stat(options) => stat::stat(&options),
        Verb::Tune(options) => tune::tune(&options),
        Verb::Port(command) => port::port(&command),
        Verb::Buffer(options) => buffer::buffer(&options),
        Verb::Net(command) => net::net(&command),
        Verb::Model(options) => model::model(&options),
        Verb::Completions(completions) => pages::completions(&completions),
        Verb::Man(man) => pages::man(&man),
    })
}

fn end(result: Result<ExitCode, fault::Fault>) -> ExitCode {
    result.unwrap_or_else(|fault| fault.end())
}
