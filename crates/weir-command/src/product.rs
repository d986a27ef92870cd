//! The start of a command, from its arguments to its exit status.

use crate::command_line::{misspelt_verb, parse};
use crate::fault::Fault;
use crate::manual::reflowed;
use crate::output::Output;
use crate::pages::{CommandTree, write_man};
use clap::{Command, CommandFactory, FromArgMatches};
use std::ffi::{CString, OsString};
use std::path::Path;
use std::process::ExitCode;

/// The word with which `weir` asks the commands of other binaries what completes them.
pub const TREE: &str = "describe-commands";
/// The words with which it has them write their manual pages.
pub const MAN: [&str; 2] = ["man", "--out"];

type Run = Box<dyn Fn(&[OsString]) -> Result<ExitCode, Fault>>;

/// A verb of `weir` that a binary of its own holds.
pub struct Verb {
    name: &'static str,
    command: fn() -> Command,
    run: Run,
}

impl Verb {
    /// Takes the verb's name, and what it does once its options are read.
    pub fn new<C>(name: &'static str, act: fn(&C) -> Result<ExitCode, Fault>) -> Verb
    where
        C: CommandFactory + FromArgMatches + 'static,
    {
        let command = || reflowed(C::command());
        let read =
            move |args: &[OsString]| C::from_arg_matches(&command().try_get_matches_from(args)?);
        let suggest =
            move |args: &[OsString], error: &clap::Error| misspelt_verb(&command(), args, error);
        Verb { name, command, run: Box::new(move |args| act(&parse(args, read, suggest)?)) }
    }
}

/// Runs the binary `binary`: the verb that its first argument names, else the first of `verbs`.
pub fn run(binary: &str, verbs: &[Verb]) -> ExitCode {
    name_process(binary);
    let mut args: Vec<OsString> = std::env::args_os().collect();
    end(match &args[..] {
        [_, word] if word == TREE => describe(verbs),
        [_, man, out, directory] if [man, out] == MAN => {
            let mut written =
                verbs.iter().map(|verb| write_man((verb.command)(), Path::new(directory)));
            written.find(Result::is_err).unwrap_or(Ok(())).map(|()| ExitCode::SUCCESS)
        }
        _ => {
            let named =
                args.get(1).and_then(|word| verbs[1..].iter().find(|verb| *word == *verb.name));
            if named.is_some() {
                args.remove(1);
            }
            (named.unwrap_or(&verbs[0]).run)(&args)
        }
    })
}

/// Prints a description of each verb, for completions.
fn describe(verbs: &[Verb]) -> Result<ExitCode, Fault> {
    let trees: Vec<CommandTree> =
        verbs.iter().map(|verb| CommandTree::of(&(verb.command)())).collect();
    let text = serde_json::to_vec(&trees).map_err(Fault::cannot("describe the commands"))?;
    Output::stdout()?.write(text).map(|_| ExitCode::SUCCESS)
}

/// Names this process. One that was started through `/proc/self/exe` is named "exe" in ps.
pub fn name_process(name: &str) {
    if rustix::thread::name().is_ok_and(|name| name.as_c_str() == c"exe")
        && let Ok(name) = CString::new(name)
    {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Turns the result of a verb into an exit status, and prints its error.
pub fn end(result: Result<ExitCode, Fault>) -> ExitCode {
    result.unwrap_or_else(|fault| fault.end())
}
