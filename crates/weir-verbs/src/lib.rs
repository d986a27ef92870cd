//! The verbs of the `weir` command.
//!
//! One file or folder a verb: [`run`], [`mod@bench`], [`compare`], [`history`], [`stat`],
//! [`tune`], [`port`], [`mod@buffer`], [`net`], [`pages`] (completions and manual pages). What they
//! share: [`args`] (the command line), [`shell`] (cutting a pipeline's text into stages),
//! [`report`] (what people and programs read of a run), [`json`] and
//! [`output`] (what all verbs print), [`fault`] (errors of the command).

#![forbid(unsafe_code)]

mod args;
mod bench;
mod buffer;
mod compare;
mod fault;
mod history;
mod json;
mod net;
mod output;
mod pages;
mod places;
mod port;
mod report;
mod run;
mod shell;
mod stat;
mod tune;
mod units;

use args::Command;
use std::process::ExitCode;

/// Runs the command with the arguments of this process, and gives the status that the process should end with.
pub fn main() -> ExitCode {
    // Started by itself through /proc/self/exe, it would be called that in ps and in weir net stat.
    if rustix::thread::name().is_ok_and(|name| name.as_c_str() == c"exe") {
        let _ = rustix::thread::set_name(c"weir");
    }
    // No verb for people: weir bench starts itself with this word.
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
        Command::Run(run) => run::run(&run),
        Command::Sh(options) => run::sh(options.words),
        Command::Bench(options) => bench::bench(&options),
        Command::Compare(options) => compare::compare(&options),
        Command::History(options) => history::history(&options),
        Command::Stat(options) => stat::stat(&options),
        Command::Tune(options) => tune::tune(&options),
        Command::Port(command) => port::port(&command),
        Command::Buffer(options) => buffer::buffer(&options),
        Command::Net(command) => net::net(&command),
        Command::Completions(completions) => pages::completions(&completions),
        Command::Man(man) => pages::man(&man),
    })
}

fn end(result: Result<ExitCode, fault::Fault>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(fault) => {
            fault.tell();
            fault.code()
        }
    }
}
