//! `weir completions` and `weir man`, generated from the definition of the command line.

use crate::args::{CompletionsOptions, HistoryListOptions, HistoryVerb, ManOptions, command};
use crate::fault::Fault;
use crate::output::Output;
use clap::{ArgAction, Args, Command, Subcommand, value_parser};
use clap_complete::Shell;
use std::process::ExitCode;

/// Prints a completion script.
pub fn completions(options: &CompletionsOptions) -> Result<ExitCode, Fault> {
    print(script(options.shell).as_bytes())
}

/// A completion script knows which options take a value only behind `=`: `--live bars` would run
/// a pipeline `bars`. Fish and zsh can be told so. Elsewhere it completes without its value.
fn script(shell: Shell) -> String {
    let in_one_word = matches!(shell, Shell::Fish | Shell::Zsh);
    let mut joined = Vec::new();
    // The old options of history are hidden. clap would complete those too.
    let command = command().mut_subcommand("history", |history| {
        let about = history.get_about().cloned().unwrap_or_default();
        let shown = Command::new("history").about(about).disable_help_subcommand(true);
        HistoryListOptions::augment_args(HistoryVerb::augment_subcommands(shown))
    });
    let mut command = completed(command, in_one_word, &mut joined);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "weir", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    for long in joined.iter().filter(|_| in_one_word) {
        script = match shell {
            Shell::Zsh => script.replace(&format!("--{long}=["), &format!("--{long}=-[")),
            _ => without_required_value(&script, long),
        };
    }
    script
}

/// The command as it is completed; `joined` gets the names of options whose value stands behind `=`.
fn completed(command: Command, in_one_word: bool, joined: &mut Vec<String>) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| {
        if !arg.is_require_equals_set() {
            return arg;
        }
        joined.extend(arg.get_long().map(str::to_owned));
        if in_one_word {
            return arg;
        }
        let flag = arg.require_equals(false).num_args(0).action(ArgAction::SetTrue);
        flag.value_name(None).value_parser(value_parser!(bool)).default_value(None)
    });
    names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |verb| completed(verb, in_one_word, joined))
    })
}

/// Fish takes the value of an option without `-r` only behind `=`.
fn without_required_value(script: &str, long: &str) -> String {
    let option = format!(" -l {long} ");
    let lines = script.split_inclusive('\n').map(|line| match line.contains(&option) {
        true => line.replacen("' -r", "'", 1),
        false => line.to_owned(),
    });
    lines.collect()
}

/// Writes the manual pages into a directory, or the first of them to standard output.
pub fn man(options: &ManOptions) -> Result<ExitCode, Fault> {
    match &options.out {
        Some(directory) => {
            let what = format!("write manual pages to '{}'", directory.display());
            let cannot = Fault::cannot(&what);
            std::fs::create_dir_all(directory).map_err(&cannot)?;
            clap_mangen::generate_to(command(), directory).map_err(cannot)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command()).render(&mut page);
            rendered.map_err(Fault::cannot("make the page"))?;
            print(&page)
        }
    }
}

fn print(bytes: &[u8]) -> Result<ExitCode, Fault> {
    Output::stdout()?.write(bytes).map(|_| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_options_are_not_completed() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell);
            assert!(script.contains("until-closed") && script.contains("fail-on"), "{shell}");
            for hidden in ["was spelt", "--export", "-l export", "--remove", "-l remove"] {
                assert!(!script.contains(hidden), "{shell}: {hidden}");
            }
        }
    }

    #[test]
    fn a_value_behind_an_equals_sign_is_not_completed_behind_a_blank() {
        assert!(!script(Shell::Bash).contains("--live)"));
        let zsh = script(Shell::Zsh);
        assert!(zsh.contains("--live=-[") && !zsh.contains("--live=["), "{zsh}");
        let fish = script(Shell::Fish);
        let mut live = fish.lines().filter(|line| line.contains(" -l live "));
        assert!(live.all(|line| !line.contains("' -r")), "{fish}");
        assert!(fish.contains(" -l sort ") && fish.contains("' -r"), "{fish}");
    }

    #[test]
    fn a_name_takes_its_value_in_one_way_in_all_verbs() {
        let (mut joined, mut all) = (Vec::new(), command());
        all = completed(all, true, &mut joined);
        let mut verbs: Vec<&Command> = vec![&all];
        while let Some(verb) = verbs.pop() {
            verbs.extend(verb.get_subcommands());
            for arg in verb.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let is_joined = arg.get_long().is_some_and(|long| joined.iter().any(|j| j == long));
                assert_eq!(arg.is_require_equals_set(), is_joined, "{} {arg}", verb.get_name());
            }
        }
    }
}
