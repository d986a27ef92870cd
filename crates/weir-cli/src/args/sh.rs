//! The words of `weir sh`, its help and its manual page.

use clap::{ArgAction, Args};
use std::ffi::{OsStr, OsString};
use std::path::Path;

#[derive(Debug, Args)]
#[command(
    override_usage = "weir sh [OPTIONS OF bash] SCRIPT ARGS ...\n       \
                      weir sh [OPTIONS OF bash] -c TEXT [NAME ARGS ...]\n       \
                      weir sh [OPTIONS OF bash] [-s ARGS ...] < SCRIPT",
    disable_help_flag = true,
    after_help = SH_MANUAL,
)]
pub struct ShOptions {
    /// What bash is to get: its options, a script and its arguments
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// The name under which the command is `weir sh`, for settings that take one word only.
const OWN_NAME: &str = "weir-sh";

/// Returns the words for bash if this process was started as `weir sh`. No other parser sees them:
/// what bash takes, `weir sh` takes.
pub fn shell_words() -> Option<Vec<OsString>> {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(OsStr::new(OWN_NAME)) {
        return Some(args.collect());
    }
    let words: Vec<OsString> = args.next().filter(|verb| verb == "sh").map(|_| args.collect())?;
    let help = words.len() == 1 && words[0] == "--help";
    (!help).then_some(words)
}

const SH_MANUAL: &str = "\
Examples:
  weir sh report.sh in.csv
  weir sh -e -o pipefail -c 'sort \"$1\" | uniq -c' count in.csv
  WEIR_REPORT=build.jsonl make SHELL='weir sh'

weir sh is bash, with a report at the end: it starts bash with the same words, passes signals on to
it, and ends as bash ended. It takes every option of bash except a single --help.

Where the report goes:
  WEIR_REPORT not set or empty   standard error
  WEIR_REPORT=FILE               appended to FILE as text, behind a line with the command
  WEIR_REPORT=FILE.jsonl         appended as one line of JSON (schema weir.run/1); also FILE.json
  WEIR_REPORT=FILE.md            appended as Markdown; also the file that GITHUB_STEP_SUMMARY names
A script that runs for less than a second has no report on standard error, unless a command of it
failed and ended it, or it left a process running that has its output open: then only that is said. WEIR_MIN=TIME (0, 250ms, 10s) sets another time, for files too.
If nothing is read, written or computed for 30s (10s where standard error is a terminal), what weir why
says of it stands on standard error. WEIR_WHY_AFTER=TIME sets another time; with 0 or never it does not.
Each report is appended by one write, so several at once do not mix in a file on this host. In GitHub
Actions (shell: weir sh -e {0}) a notice for the step follows on standard error.

A weir sh inside of another one, or below a weir run, becomes bash: the outer one reports what the
inner one starts. The variable WEIR_SH names an outer weir sh. An interactive shell is not measured; it becomes bash too.

Where only one word can be given for a shell, a link to weir with the name weir-sh is weir sh:
  ln -s \"$(command -v weir)\" ~/bin/weir-sh
As the first line of a script:
  #!/usr/bin/env -S weir sh

Exit status: that of bash. If a signal killed bash, weir sh dies of the same signal. 127 if bash is
not installed.";
