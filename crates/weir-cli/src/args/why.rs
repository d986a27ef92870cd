//! Options of `weir why`.

use clap::Args;
use weir_command::json_option::JsonOption;

#[derive(Debug, Args)]
#[command(after_help = WHY_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct WhyOptions {
    /// The process
    #[arg(value_name = "PID", value_parser = weir_command::units::parse::process_id)]
    pub pid: i32,

    #[command(flatten)]
    pub json: JsonOption,
}

const JSON: &str = "Write the answer as JSON (schema weir.why/1) to FILE; - is standard output";

const WHY_EXAMPLES: &str = "\
weir why looks from outside: it stops nobody, and needs no root for processes of your own. It follows
the waits from process to process, to the one that could go on or to a circle.

Examples:
  weir why 4711                 why does process 4711 not go on?
  weir why $(pgrep -n rsync)    the same for the newest rsync
  weir why 4711 --json - | jq -r .answer

Exit status: 0 with an answer, 1 if there is no such process.";
