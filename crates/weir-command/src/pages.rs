//! Completion scripts and manual pages, generated from the definition of a command line.

use crate::fault::Fault;
use clap::builder::{PossibleValue, PossibleValuesParser, StyledStr};
use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use clap_complete::Shell;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Returns the completion script of a command.
///
/// A completion script knows which options take a value only behind `=`: `--live bars` would run
/// a pipeline `bars`. Fish and zsh can be told so. Elsewhere it completes without its value.
pub fn script(command: Command, shell: Shell) -> String {
    let in_one_word = matches!(shell, Shell::Fish | Shell::Zsh);
    let mut joined = Vec::new();
    let mut command = completed(command, in_one_word, &mut joined);
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    for long in joined.iter().filter(|_| in_one_word) {
        script = match shell {
            Shell::Zsh => script.replace(&format!("--{long}=["), &format!("--{long}=-[")),
            _ => without_required_value(&script, long),
        };
    }
    script
}

/// The command as it is completed; `joined` gets the names of options whose value is behind `=`.
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

/// Writes the manual pages of a command and its verbs into a directory.
pub fn write_man(command: Command, directory: &Path) -> Result<(), Fault> {
    let what = format!("write manual pages to '{}'", directory.display());
    let cannot = Fault::cannot(&what);
    std::fs::create_dir_all(directory).map_err(&cannot)?;
    clap_mangen::generate_to(command, directory).map_err(cannot)
}

/// Returns the first manual page of a command.
pub fn man(command: Command) -> Result<Vec<u8>, Fault> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(Fault::cannot("make the page"))?;
    Ok(page)
}

/// What a completion script needs to know of a command, for `weir`, which completes the commands of
/// other binaries.
#[derive(Debug, Deserialize, Serialize)]
pub struct CommandTree {
    name: String,
    about: String,
    options: Vec<OptionTree>,
    verbs: Vec<CommandTree>,
}

#[derive(Debug, Deserialize, Serialize)]
struct OptionTree {
    id: String,
    long: Option<String>,
    short: Option<char>,
    help: String,
    takes_value: bool,
    behind_equals: bool,
    hint: String,
    /// Each with its help.
    values: Vec<(String, String)>,
}

impl CommandTree {
    /// Describes a command.
    pub fn of(command: &Command) -> CommandTree {
        let text = |text: Option<&StyledStr>| text.map(StyledStr::to_string).unwrap_or_default();
        let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let options = options.map(|arg| OptionTree {
            id: arg.get_id().to_string(),
            long: arg.get_long().map(str::to_owned),
            short: arg.get_short(),
            help: text(arg.get_help()),
            takes_value: arg.get_action().takes_values(),
            behind_equals: arg.is_require_equals_set(),
            hint: format!("{:?}", arg.get_value_hint()),
            values: arg
                .get_possible_values()
                .iter()
                .map(|value| (value.get_name().to_owned(), text(value.get_help())))
                .collect(),
        });
        CommandTree {
            name: command.get_name().to_owned(),
            about: text(command.get_about()),
            options: options.collect(),
            verbs: command.get_subcommands().map(CommandTree::of).collect(),
        }
    }

    /// Returns a command that is completed like the one described, under another name.
    pub fn command(&self, name: &str) -> Command {
        let command = Command::new(name.to_owned()).about(self.about.clone());
        let command = command.disable_help_subcommand(true);
        let command = self.options.iter().fold(command, |command, option| {
            // Each command gets it anyway.
            if option.id == "help" { command } else { command.arg(option.arg()) }
        });
        self.verbs
            .iter()
            .fold(command, |command, verb| command.subcommand(verb.command(&verb.name)))
    }
}

impl OptionTree {
    fn arg(&self) -> Arg {
        let mut arg = Arg::new(self.id.clone()).help(self.help.clone());
        if let Some(long) = &self.long {
            arg = arg.long(long.clone());
        }
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        if !self.takes_value {
            return arg.action(ArgAction::SetTrue);
        }
        arg = arg.require_equals(self.behind_equals);
        if !self.values.is_empty() {
            let values = self.values.iter();
            let values =
                values.map(|(name, help)| PossibleValue::new(name.clone()).help(help.clone()));
            arg = arg.value_parser(PossibleValuesParser::new(values));
        }
        arg.value_hint(self.hint.parse().unwrap_or(ValueHint::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Command {
        let live = Arg::new("live").long("live").num_args(0..=1).require_equals(true);
        let sort = Arg::new("sort").long("sort").short('s').value_parser(["rate", "fill"]);
        let file = Arg::new("file").long("file").value_hint(ValueHint::FilePath);
        let old = Arg::new("old").long("old").hide(true);
        let verb = Command::new("show").args([live, sort, file, old]);
        Command::new("weir-x").about("Shows").subcommand(verb)
    }

    #[test]
    fn a_value_behind_an_equals_sign_is_not_completed_behind_a_blank() {
        assert!(!script(sample(), Shell::Bash).contains("--live)"));
        let zsh = script(sample(), Shell::Zsh);
        assert!(zsh.contains("--live=-[") && !zsh.contains("--live=["), "{zsh}");
        let fish = script(sample(), Shell::Fish);
        let mut live = fish.lines().filter(|line| line.contains(" -l live "));
        assert!(live.all(|line| !line.contains("' -r")), "{fish}");
        assert!(fish.contains(" -l sort "), "{fish}");
    }

    #[test]
    fn a_command_is_completed_from_its_description_as_from_itself() {
        let tree = serde_json::to_string(&CommandTree::of(&sample())).expect("JSON");
        let tree: CommandTree = serde_json::from_str(&tree).expect("a tree");
        let mut shown = sample();
        // The description leaves hidden options out.
        shown = shown.mut_subcommand("show", |show| {
            let args: Vec<Arg> =
                show.get_arguments().filter(|arg| !arg.is_hide_set()).cloned().collect();
            Command::new("show").args(args)
        });
        for shell in [Shell::Bash, Shell::Zsh, Shell::Elvish] {
            let (from_tree, own) =
                (script(tree.command("weir-x"), shell), script(shown.clone(), shell));
            let words = |script: &str| -> Vec<String> {
                let split = script.split(|c: char| !c.is_alphanumeric() && c != '-');
                let mut words: Vec<String> = split
                    .filter(|word| word.starts_with("--") && *word != "--help")
                    .map(str::to_owned)
                    .collect();
                words.sort();
                words.dedup();
                words
            };
            assert_eq!(words(&from_tree), words(&own), "{shell}");
            assert!(!from_tree.contains("--old"), "{shell}");
        }
    }
}
