//! Wraps the texts below the options to the width of the terminal.
//!
//! In the source, a paragraph has several lines. clap wraps each line separately, so on a narrow
//! terminal lines of 100 columns would become long and short ones. Therefore the lines of a paragraph
//! are joined here, and clap wraps the result.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// Returns the command with texts for any width.
pub fn reflowed(command: Command) -> Command {
    let [short, long] = [command.get_after_help(), command.get_after_long_help()]
        .map(|text| text.map(|text| paragraphs(&text.to_string())));
    let names: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let mut command = command.mut_args(negative_is_a_value);
    if let Some(mut text) = long {
        // A manual without examples begins with the text of the short help.
        if let Some(examples) = short.as_ref().filter(|_| !text.contains("Examples:\n")) {
            text.insert_str(0, &format!("{examples}\n\n"));
        }
        command = command.after_long_help(StyledStr::from(text));
    }
    if let Some(text) = short {
        command = command.after_help(StyledStr::from(text));
    }
    names.iter().fold(command, |command, name| command.mut_subcommand(name, reflowed))
}

/// Takes `--runs -1` for a wrong number, not for an option `-1` that nobody meant.
fn negative_is_a_value(arg: Arg) -> Arg {
    let takes_any = arg.get_action().takes_values() && !arg.is_require_equals_set();
    if takes_any && !arg.is_positional() { arg.allow_negative_numbers(true) } else { arg }
}

/// Joins the lines of each paragraph. Indented lines, rows of a table (with two consecutive blanks
/// between columns) and headings (with a colon at the end) stay separate.
///
/// Manual pages have the same texts, and `man` fills all lines that do not begin with a blank. So rows
/// are indented, and an empty line ends them.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let (mut open, mut indented) = (false, false);
    for line in text.lines() {
        let row = !line.starts_with(' ') && line.contains("  ");
        let own = line.is_empty() || row || line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if open && !own { ' ' } else { '\n' });
        }
        if indented && !own {
            joined.push('\n');
        }
        joined.push_str(if row { "  " } else { "" });
        joined.push_str(line);
        open = !own && !line.ends_with(':');
        indented = own && !line.is_empty();
    }
    joined
}

/// Checks the help of a command, for the tests of the binary that has it.
///
/// # Panics
/// If a verb has no examples, a manual page would fill the rows of a table, or an option takes its
/// value in two ways.
pub fn assert_sound(command: &Command) {
    command.clone().debug_assert();
    let mut verbs = vec![command];
    let mut joined = std::collections::BTreeMap::new();
    while let Some(verb) = verbs.pop() {
        verbs.extend(verb.get_subcommands());
        let text = verb.get_after_long_help().or_else(|| verb.get_after_help());
        let text = text.map(StyledStr::to_string).unwrap_or_default();
        let mut before = "";
        for line in text.lines() {
            let is_filled = !line.is_empty() && !line.starts_with(' ');
            let joins_a_row = line.contains("  ") || before.starts_with(' ');
            assert!(!is_filled || !joins_a_row, "{verb}: {line}");
            before = line;
        }
        for arg in verb.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let Some(long) = arg.get_long() else { continue };
            let is_joined = arg.is_require_equals_set();
            let other = joined.insert(long, is_joined);
            assert!(other.is_none_or(|other| other == is_joined), "{} {arg}", verb.get_name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_are_joined_and_tables_are_not() {
        let text = "One idea\nof two lines.\n\nExamples:\n  weir run a\n  weir run b\nwaits   a row\n\
                    slept   another\nAfter\nthem.";
        let expected = "One idea of two lines.\n\nExamples:\n  weir run a\n  weir run b\n  \
                        waits   a row\n  slept   another\n\nAfter them.";
        assert_eq!(paragraphs(text), expected);
    }
}
