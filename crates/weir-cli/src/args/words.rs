//! Decides what the arguments of `weir run` are: one text for the shell, or the words of a command.
//!
//! `weir run 'a | b'` is a text; `weir run ls -l` is a command and its arguments, as `time` and
//! `strace` take them, and every argument after the first belongs to it. The first argument alone
//! decides: if it contains blanks or special characters of the shell, it is a text, and options after
//! it are weir's. After `--` all arguments are words; with `--compare` each is a text.

use super::{Asked, BufferOptions, CommandLine, Elastic, PortCommand, RunOptions, Verb, elastic};
use clap::error::ErrorKind;
use clap::{Args, FromArgMatches};
use std::ffi::{OsStr, OsString};
use weir_command::command_line::{self, all_quoted, joined, misspelt_verb, wrong_verb};
use weir_command::fault::Fault;
use weir_measure::programs::find_program;

/// Reads the command line; help and most mistakes end the program here.
pub fn parse(args: &[OsString]) -> Result<CommandLine, Fault> {
    command_line::parse(args, read, no_verb)
}

/// Reads a command line. Verbs that start often are first read without the other verbs and the manual: to
/// build those takes longer than to start a pipeline, or to tell the version. Whatever is wrong is told by the
/// whole command.
fn read(args: &[OsString]) -> Result<CommandLine, clap::Error> {
    if let [_, asks] = args
        && (asks == "--version" || asks == "-V")
    {
        clap::Command::new("weir").version(env!("CARGO_PKG_VERSION")).try_get_matches_from(args)?;
    }
    let alone = args.get(1).and_then(|verb| verb_alone(verb.to_str()?));
    let read = alone.and_then(|alone| read_by(args, &|| alone.clone()).ok());
    read.map_or_else(|| read_by(args, &super::command), Ok)
}

/// The command line of one verb, if that starts often, without texts for the help of weir.
fn verb_alone(verb: &str) -> Option<clap::Command> {
    let new = clap::Command::new;
    let command = match verb {
        "run" => RunOptions::augment_args(new("run")),
        "port" => PortCommand::augment_args(new("port")),
        "buffer" => BufferOptions::augment_args(new("buffer")),
        _ => return None,
    };
    Some(clap::Command::new("weir").subcommand(command).subcommand_required(true))
}

fn read_by(
    args: &[OsString],
    command: &dyn Fn() -> clap::Command,
) -> Result<CommandLine, clap::Error> {
    let mut options = CommandLine::from_arg_matches(&command().try_get_matches_from(args)?)?;
    let Verb::Run(run) = &mut options.command else { return Ok(options) };
    // The words are the last arguments, taken as they are.
    let first = args.len() - run.words.len();
    let before = args.get(first.wrapping_sub(1)).map(OsString::as_os_str);
    if before == Some(OsStr::new("--")) {
        run.asked = Asked::Words(std::mem::take(&mut run.words));
        return Ok(options);
    }
    if let Some(args) = joined_elastic(args, first, run) {
        return read_by(&args, command);
    }
    if run.compare || is_text(&run.words[0]) {
        return read_texts(args, command());
    }
    let words = std::mem::take(&mut run.words);
    run.asked = if words.len() == 1 { Asked::Texts(words) } else { Asked::Words(words) };
    Ok(options)
}

/// Reads a command line whose arguments are texts, with options anywhere between them.
fn read_texts(args: &[OsString], command: clap::Command) -> Result<CommandLine, clap::Error> {
    let mut command = command
        .mut_subcommand("run", |run| run.mut_arg("words", |words| words.trailing_var_arg(false)));
    let matches = command.try_get_matches_from_mut(args)?;
    let mut options = CommandLine::from_arg_matches(&matches)?;
    let Verb::Run(run) = &mut options.command else { return Ok(options) };
    let texts = std::mem::take(&mut run.words);
    if let ([text, more, ..], false) = (texts.as_slice(), run.compare) {
        let (text_shown, more) = (text.to_string_lossy(), more.to_string_lossy());
        let (whole, words) = (joined(&texts), all_quoted(&texts));
        let said = format!(
            "'{text_shown}' is a text for the shell, and '{more}' is one argument too many\n\n\
             One text:            weir run {whole}\n\
             Words, no shell:     weir run -- {words}\n\
             Compare pipelines:   weir run --compare {words}"
        );
        // With the usage of the verb, not of weir.
        command = command.find_subcommand("run").cloned().unwrap_or(command);
        return Err(command.error(ErrorKind::TooManyValues, said));
    }
    run.asked = Asked::Texts(texts);
    Ok(options)
}

/// Accepts `--elastic 1 TEXT`, with a blank for the equals sign: no command is called `1`.
fn joined_elastic(args: &[OsString], first: usize, run: &RunOptions) -> Option<Vec<OsString>> {
    let detached = run.elastic == Some(Elastic::Evidence)
        && run.words.len() > 1
        && args[first - 1] == "--elastic";
    let pipes = run.words[0].to_str().filter(|_| detached)?;
    elastic(pipes).ok().filter(|pipes| matches!(pipes, Elastic::Pipes(_)))?;
    let mut args = args.to_vec();
    args.splice(first - 1..=first, [OsString::from(format!("--elastic={pipes}"))]);
    Some(args)
}

/// Whether only a shell could make sense of an argument.
fn is_text(argument: &OsStr) -> bool {
    let bytes = argument.as_encoded_bytes();
    let speaks_shell = |byte: &u8| byte.is_ascii_whitespace() || b"|&;<>()$`\"'\\#=".contains(byte);
    bytes.is_empty() || bytes.iter().any(speaks_shell) || bytes == b"!" || bytes == b"{"
}

/// Suggests what was meant by `weir 'a | b'`, `weir ls -l` or `weir rnu`.
fn no_verb(args: &[OsString], error: &clap::Error) -> Option<Fault> {
    // The whole command looks for the other binaries in PATH, which the version needs not.
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let verbs = super::command();
    let (at, wrong) = wrong_verb(&verbs, args, error)?;
    let shown = wrong.to_string_lossy();
    let outermost = std::ptr::eq(at, &verbs);
    // Before what clap suggests: sort is like port, and test like net.
    if outermost && (is_text(wrong) || find_program(wrong.as_ref()).is_some()) {
        let more = args.get(2).map(|word| word.as_encoded_bytes());
        // Behind a text only options of weir may stand.
        let words = match is_text(wrong) && more.is_some_and(|word| !word.starts_with(b"-")) {
            true => joined(&args[1..]),
            false => all_quoted(&args[1..]),
        };
        let said = format!("'{shown}' is not a verb of weir; to run it: weir run {words}");
        return Some(Fault::usage(said));
    }
    misspelt_verb(&verbs, args, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<RunOptions, clap::Error> {
        let args: Vec<OsString> = ["weir", "run"].iter().chain(args).map(OsString::from).collect();
        match read(&args)?.command {
            Verb::Run(run) => Ok(run),
            other => panic!("not run: {other:?}"),
        }
    }

    fn asked(args: &[&str]) -> Asked {
        run(args).unwrap_or_else(|error| panic!("{args:?}: {error}")).asked
    }

    fn texts(texts: &[&str]) -> Asked {
        Asked::Texts(texts.iter().map(OsString::from).collect())
    }

    fn words(words: &[&str]) -> Asked {
        Asked::Words(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn one_argument_is_a_text_and_several_are_words() {
        assert_eq!(asked(&["a | b"]), texts(&["a | b"]));
        assert_eq!(asked(&["ls"]), texts(&["ls"]));
        assert_eq!(asked(&["ls", "-l"]), words(&["ls", "-l"]));
        assert_eq!(asked(&["bash", "report.sh"]), words(&["bash", "report.sh"]));
        let hard = ["sort", "--", "-q", "--json", "|", "a b"];
        assert_eq!(asked(&hard), words(&hard));
        assert_eq!(asked(&["--", "ls"]), words(&["ls"]));
        assert_eq!(asked(&["--", "a b", "c"]), words(&["a b", "c"]));
        assert_eq!(asked(&[""]), texts(&[""]));
    }

    #[test]
    fn options_stand_before_a_command_and_anywhere_around_a_text() {
        let run = |args: &[&str]| run(args).expect("understood");
        let both = [run(&["-q", "a | b"]), run(&["a | b", "-q"])];
        assert!(both.iter().all(|run| run.quiet && run.asked == texts(&["a | b"])));
        let command = run(&["-q", "-o", "f", "ls", "-q"]);
        assert!(command.quiet && command.asked == words(&["ls", "-q"]));
        assert!(!run(&["ls", "-q"]).quiet);
    }

    #[test]
    fn with_compare_each_argument_is_a_text() {
        assert_eq!(asked(&["--compare", "a", "b"]), texts(&["a", "b"]));
        assert_eq!(
            asked(&["--compare", "a -x", "b", "c", "--runs", "6"]),
            texts(&["a -x", "b", "c"])
        );
        assert_eq!(asked(&["a | b", "--compare", "c"]), texts(&["a | b", "c"]));
    }

    #[test]
    fn a_text_and_more_is_refused_with_the_right_forms() {
        let error = run(&["sort -u", "file"]).expect_err("refused").to_string();
        assert!(error.contains("weir run 'sort -u file'"), "{error}");
        assert!(error.contains("weir run --compare 'sort -u' file"), "{error}");
        assert!(run(&[]).is_err());
        assert!(run(&["--jsn", "f", "a | b"]).expect_err("refused").to_string().contains("--json"));
    }

    #[test]
    fn elastic_takes_its_pipes_with_a_blank_too() {
        let of = |args: &[&str]| {
            let run = run(args).expect("understood");
            (run.elastic, run.asked)
        };
        let one = Some(Elastic::Pipes(vec![1]));
        assert_eq!(of(&["--elastic", "1", "a | b"]), (one.clone(), texts(&["a | b"])));
        assert_eq!(of(&["--elastic=1", "a | b"]), (one, texts(&["a | b"])));
        let auto = Some(Elastic::Evidence);
        assert_eq!(of(&["--elastic", "a | b"]), (auto.clone(), texts(&["a | b"])));
        assert_eq!(of(&["--elastic", "ls", "-l"]), (auto, words(&["ls", "-l"])));
    }

    #[test]
    fn a_verb_that_is_read_alone_is_read_as_by_the_whole_command() {
        for line in [
            "weir run --compare a b",
            "weir port stat",
            "weir port list --json -",
            "weir buffer --mem 4M",
            "weir buffer --absent",
            "weir port frobnicate",
            "weir port",
        ] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let shown = |read: Result<CommandLine, clap::Error>| match read {
                Ok(read) => format!("{read:?}"),
                Err(error) => error.to_string(),
            };
            assert!(verb_alone(line.split(' ').nth(1).expect("a verb")).is_some(), "{line}");
            let whole = shown(read_by(&args, &crate::args::command));
            assert_eq!(shown(read(&args)), whole, "{line}");
        }
        assert!(verb_alone("bench").is_none());
    }

    #[test]
    fn a_wrong_number_is_refused_with_the_numbers_that_are_right() {
        for (line, said) in [
            ("weir run --sample-ms x true", "from 1 to 1000"),
            ("weir run --runs -1 --compare true", "from 6 to 2048"),
            ("weir run --pipe-size -1 true", "not a size"),
            ("weir port read a --until-closed=0", "of at least 1"),
            ("weir tune --order -1", "from 0 to 18"),
            ("weir tune --live=x --order 1", "'x' is not a process id"),
            ("weir tune --live=0 --order 1", "'0' is not a process id"),
        ] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let refused = read(&args).expect_err("refused").to_string();
            let is_clear = refused.contains("invalid value") && refused.contains(said);
            assert!(is_clear && !refused.contains("tip:"), "{line}: {refused}");
        }
    }

    /// `weir buffer *` wrote the name of the second file to the terminal as it was.
    #[test]
    fn a_wrong_argument_is_shown_as_text() {
        for line in ["why 1 @", "buffer x @", "frob@", "top -a @"] {
            let line = line.replace('@', "a\u{1b}[2J\u{9b}\u{202e}");
            let args: Vec<OsString> =
                std::iter::once("weir").chain(line.split(' ')).map(OsString::from).collect();
            let error = command_line::harmless(&args, read(&args).expect_err("refused"), read);
            let said = error.render().ansi().to_string();
            assert!(said.contains("a?[2J??"), "{line:?}: {said:?}");
            assert!(!said.contains(['\u{9b}', '\u{202e}']), "{line:?}: {said:?}");
        }
    }

    /// "to pass '-p' as a value, use '-- -p'" is what nobody wanted to do.
    #[test]
    fn an_option_that_does_not_exist_is_no_value() {
        for line in ["watch -x 1", "run -x", "top --nosuch"] {
            let args: Vec<OsString> =
                std::iter::once("weir").chain(line.split(' ')).map(OsString::from).collect();
            let said = command_line::harmless(&args, read(&args).expect_err("refused"), read);
            let said = said.to_string();
            assert!(said.contains("unexpected argument") && !said.contains("value"), "{said}");
        }
        let args = ["weir", "run", "--jsn", "f", "a | b"].map(OsString::from);
        let said =
            command_line::harmless(&args, read(&args).expect_err("refused"), read).to_string();
        assert!(said.contains("a similar argument exists: '--json'"), "{said}");
    }

    #[test]
    fn a_slip_of_the_fingers_is_seen_also_in_a_short_verb() {
        for (word, verb) in [("rnu", "run"), ("ru", "run"), ("prot", "port"), ("bnehc", "bench")] {
            assert_eq!(command_line::misspelt(&crate::args::command(), word), Some(verb), "{word}");
        }
        for word in ["", "x", "grep", "frobnicate"] {
            assert_eq!(command_line::misspelt(&crate::args::command(), word), None, "{word}");
        }
    }
}
