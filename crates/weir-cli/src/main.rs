//! The `weir` command: find out where the time goes between your processes, and take it back.
//!
//! One file or folder a verb: [`run`], [`bench`], [`compare`], [`history`], [`pages`] (completions
//! and manual pages). What they share: [`args`] (the command line), [`shell`] (cutting a pipeline's
//! text into stages), [`report`] (what people and programs read of a run), [`fault`] (errors of the
//! command).

#![forbid(unsafe_code)]

mod args;
mod bench;
mod compare;
mod fault;
mod history;
mod pages;
mod report;
mod run;
mod shell;

use args::{Command, Options};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match options.command {
        Command::Run(run) => run::run(&run),
        Command::Bench(options) => bench::bench(&options),
        Command::Compare(options) => compare::compare(&options),
        Command::History(options) => history::history(&options),
        Command::BenchCell => bench::cell(),
        Command::Completions(completions) => pages::completions(&completions),
        Command::Man(man) => pages::man(&man),
    };
    match result {
        Ok(code) => code,
        Err(fault) => {
            fault.tell();
            fault.code()
        }
    }
}
