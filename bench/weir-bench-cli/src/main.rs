//! The command `weir-bench`: the verbs `bench`, `compare` and `history` of `weir`.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod compare;
mod figure;
mod history;

use std::process::ExitCode;
use weir_command::product::{Verb, end, name_process, run};

fn main() -> ExitCode {
    // The command starts itself with this word; it is not a verb for people.
    if std::env::args_os().skip(1).eq([bench::CELL]) {
        name_process("weir-bench");
        return end(bench::cell());
    }
    run(
        "weir-bench",
        &[
            Verb::new("bench", bench::bench),
            Verb::new("compare", compare::compare),
            Verb::new("history", history::history),
        ],
    )
}
