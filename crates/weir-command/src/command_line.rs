//! Reading the arguments of a command: mistakes, help, and words for a shell.

use crate::fault::Fault;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::io::{self, Write};
use weir_policy::text::printable;

/// Reads the arguments of a command with `read`. Help and most mistakes end the program here.
pub fn parse<C>(
    args: &[OsString],
    read: impl Fn(&[OsString]) -> Result<C, clap::Error>,
    suggest: impl FnOnce(&[OsString], &clap::Error) -> Option<Fault>,
) -> Result<C, Fault> {
    read(args).map_err(|error| {
        suggest(args, &error).unwrap_or_else(|| end(&harmless(args, error, &read)))
    })
}

/// Finds the same mistake in arguments on which no terminal acts: clap shows them as they are, and
/// a pattern of the shell may have made them of names that others chose.
pub fn harmless<C>(
    args: &[OsString],
    error: clap::Error,
    read: impl Fn(&[OsString]) -> Result<C, clap::Error>,
) -> clap::Error {
    let shown: Vec<OsString> =
        args.iter().map(|arg| printable(&arg.to_string_lossy()).into()).collect();
    let error = if shown == args { error } else { read(&shown).err().unwrap_or(error) };
    without_tip(error)
}

/// Leaves out how an option that does not exist would be passed as a value: nobody meant that.
fn without_tip(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

/// Prints the help or the mistake, and ends the program. clap itself would not tell that help
/// cannot be written.
fn end(error: &clap::Error) -> Fault {
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(why) if !error.use_stderr() && why.kind() != io::ErrorKind::BrokenPipe => {
            Fault::unwritable(None, why)
        }
        _ => std::process::exit(error.exit_code()),
    }
}

/// Suggests the verb that was meant by a word that is none; `verbs` is the whole command.
pub fn misspelt_verb(
    verbs: &clap::Command,
    args: &[OsString],
    error: &clap::Error,
) -> Option<Fault> {
    let (at, wrong) = wrong_verb(verbs, args, error)?;
    let shown = wrong.to_string_lossy();
    let is_unlike = error.get(ContextKind::SuggestedSubcommand).is_none();
    let meant = misspelt(at, &shown).filter(|_| is_unlike)?;
    Some(Fault::usage(format!("there is no verb '{shown}'; did you mean '{meant}'?")))
}

/// Finds the word that is not a verb, and the command whose verb it should be.
pub fn wrong_verb<'a>(
    verbs: &'a clap::Command,
    args: &'a [OsString],
    error: &clap::Error,
) -> Option<(&'a clap::Command, &'a OsString)> {
    let mut at = verbs;
    let is_verb_wrong = error.kind() == ErrorKind::InvalidSubcommand;
    let mut words = args.iter().skip(1).filter(|_| is_verb_wrong);
    let wrong = words.find(|word| match at.find_subcommand(word) {
        Some(verb) => {
            at = verb;
            false
        }
        None => true,
    })?;
    Some((at, wrong))
}

/// Finds the verb that differs from a word by one letter or by two letters in the wrong order, or for
/// longer words by two such mistakes. (clap compares the letters that two words share, and does not
/// find short words whose letters are in another order.)
pub fn misspelt<'a>(verbs: &'a clap::Command, word: &str) -> Option<&'a str> {
    const SHORT: usize = 5;
    let most = if word.len() < SHORT { 1 } else { 2 };
    let names = verbs.get_subcommands().filter(|verb| !verb.is_hide_set()).map(|v| v.get_name());
    let slips = names.map(|name| (strsim::osa_distance(word, name), name));
    slips.filter(|(slips, _)| *slips <= most).min().map(|(_, name)| name)
}

/// Quotes words for a shell as one text.
pub fn joined(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    quoted(&words.join(" "))
}

/// Quotes words for a shell, with blanks between them.
pub fn all_quoted(words: &[OsString]) -> String {
    let words = words.iter().map(|word| quoted(&word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(
            [quoted("ls"), quoted("a b"), quoted("it's"), quoted("")],
            ["ls", "'a b'", r"'it'\''s'", "''"]
        );
    }
}
