//! Options of `weir why`.

use clap::Args;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::process_id;

#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct WhyOptions {
    /// The process: its id; or its name, or else any part of its command line, if only one has that
    #[arg(value_name = "PID|NAME|TEXT", required_unless_present = "pid")]
    pub target: Option<String>,

    /// The process
    #[arg(short, long, value_name = "PID", value_parser = process_id, conflicts_with = "target")]
    pub pid: Option<i32>,

    /// Also print the functions of the kernel in which each process of the answer waits (as root)
    #[arg(long)]
    pub stack: bool,

    #[command(flatten)]
    pub json: JsonOption,
}

const JSON: &str = "Write the answer as JSON (schema weir.why/1) to FILE; - is standard output";

const WHY_EXAMPLES: &str = "\
weir why looks from outside: it stops nobody, and needs no root for processes of your own. It follows
the waits from process to process, to the one that could go on or to a circle.

Examples:
  weir why 4711                 why does process 4711 not go on?
  weir why rsync                the same for the only rsync
  weir why 'make -C docs'       for the only process with this in its command line
  weir why 4711 --json - | jq -r .answer

Exit status: 0 with an answer, 1 if there is no such process.";
