//! Advice on a program, from its name and options.

use super::changed::small_by;
use super::table::{self, Fact, Load};
use super::{
    is_posix_shell, is_shell, program_name, replaces_words, runs_others, split, starts_anything,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Returns what to do instead of starting these programs (the most frequent first) again and again;
/// `None` where nothing is known that does the same. `starter` is the program that starts them.
pub fn instead_of_processes<'a>(
    label: &str,
    starter: &str,
    programs: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let programs: Vec<&str> = programs.collect();
    let in_one = programs.first().and_then(|most| in_one_of(label, most));
    match split(label) {
        // With -n, xargs forgets -I and passes on the braces.
        Some(("xargs", words)) if replaces_words(&words) => {
            return Some(String::from(match runs_a_text(&words) {
                true => {
                    "many arguments for each shell (xargs -n 100 sh -c 'for i; do ...; done' sh)"
                }
                // A shell around it would start as many.
                false => in_one.unwrap_or(
                    "more arguments for each process, if it takes several \
                     (xargs -n 100 without -I, as cp -t DIR)",
                ),
            }));
        }
        // Each job is more than one command, and takes one argument.
        Some(("parallel", _)) if label.contains(['|', ';', '&']) => return None,
        Some(("xargs" | "parallel", _)) => {
            return Some(String::from(in_one.unwrap_or(
                "more arguments for each process, if it takes several (xargs -n 100)",
            )));
        }
        Some(("find", words)) if words.iter().any(|word| is_semicolon(word)) => {
            return Some(String::from(with_plus(&words)));
        }
        _ => {}
    }
    let program = program_name(label).unwrap_or(starter);
    if runs_others(program) && !is_shell(program) {
        return Some(String::from(match starts_anything(program) {
            true => "one recipe for many files",
            false => "what the program can do itself, or more work for each process",
        }));
    }
    if let Some(way) = in_one {
        return Some(String::from(way));
    }
    in_a_loop(starter, &programs)
}

/// Whether what is done in place of so many processes saves no more than their shells.
pub fn saves_only_shells(label: &str) -> bool {
    match split(label) {
        Some(("xargs", words)) => replaces_words(&words) && runs_a_text(&words),
        Some(("find", words)) => words.iter().any(|word| is_semicolon(word)) && runs_a_text(&words),
        _ => false,
    }
}

/// Whether the words have a shell that is given a text: `sh -c`.
fn runs_a_text(words: &[&str]) -> bool {
    let is_text = |pair: &[&str]| {
        let shell = pair[0].rsplit('/').next().is_some_and(is_posix_shell);
        shell && pair[1].starts_with('-') && pair[1].contains('c')
    };
    words.windows(2).any(is_text)
}

/// Returns what a loop of a shell can do instead of starting these programs.
fn in_a_loop(starter: &str, programs: &[&str]) -> Option<String> {
    // Other shells print nothing for `$(<file)`, and take the rest as it stands. What has the name
    // of its script may be any shell.
    let knows_more = matches!(starter, "bash" | "ksh" | "mksh" | "zsh");
    let in_shell = |fact: &Fact| match fact {
        Fact::InShell(way, each) if *each || knows_more => Some(*way),
        _ => None,
    };
    let known = programs.iter().filter_map(|program| table::find(program, in_shell));
    let mut ways: Vec<&str> = known.take(2).collect();
    let all = |fact| programs.iter().all(|program| is_shell(program) || table::is(program, fact));
    if all(Fact::ByAwk) {
        ways.push("awk for the whole loop");
    }
    // Shells have no arguments that a list could be.
    if all(Fact::TakesMany) && programs.iter().any(|program| !is_shell(program)) {
        ways.push("xargs -n 100 to start fewer");
    }
    let (last, before) = ways.split_last()?;
    Some(match before {
        [] => String::from(*last),
        _ => format!("{}, or {last}", before.join(", ")),
    })
}

/// Returns what does in one process what a text starts this program for again and again.
fn in_one_of(label: &str, program: &str) -> Option<&'static str> {
    table::find(program, |fact| match fact {
        Fact::InOne(way) => Some(*way),
        Fact::ForMany(ways) => {
            let is_typed = |name: &str| label.contains(&format!("{program} {name} "));
            ways.iter().find(|(name, ..)| is_typed(name)).map(|(_, way, _)| *way)
        }
        _ => None,
    })
}

/// Whether a word of `find` ends the command of its `-exec`.
fn is_semicolon(word: &str) -> bool {
    word.trim_matches(['\\', '\'', '"']) == ";"
}

/// Returns how `find` with these arguments, which ends its command by `;`, can give it many files.
fn with_plus(words: &[&str]) -> &'static str {
    let is_last =
        |pair: &[&str]| pair[0].trim_matches(['\'', '"']) == "{}" && is_semicolon(pair[1]);
    let mut behind = words.iter().skip_while(|word| !is_semicolon(word)).skip(1);
    if behind.next().is_some_and(|word| !word.contains(['<', '>'])) {
        // With + its status is that of no file.
        return "a program that tells of many files (-exec grep -l WORD {} +), not a test of each";
    }
    match (runs_a_text(words), words.windows(2).any(is_last)) {
        // It would take the first file and leave the others.
        (true, _) => {
            "many files for each shell (-exec sh -c 'for i; do ...; done' sh {} + in place of \\;)"
        }
        (_, true) => "-exec with + at its end instead of \\;, if the program takes several files",
        // find takes a + behind {} only, and the command at once.
        (_, false) => "many files for each process (-exec with {} + at its end, as cp -t DIR {} +)",
    }
}

/// Returns what does in one pass over a file what this program was started for again and again.
pub fn in_one_pass(program: &str) -> Option<&'static str> {
    table::find(program, |fact| match fact {
        Fact::OnePass(way) => Some(*way),
        _ => None,
    })
}

/// Returns what lets a program wait once for the disk instead of after each write.
pub fn flush_once(label: &str) -> &'static str {
    let way = |fact: &Fact| match fact {
        Fact::FlushOnce(way, _) => Some(*way),
        _ => None,
    };
    program_name(label)
        .and_then(|program| table::find(program, way))
        .unwrap_or("one flush (fsync) for many writes, if a crash in between may lose them")
}

/// What does in one process what a command did that was started again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InOneProcess {
    /// What to type or to write.
    pub way: &'static str,
    /// Whether all the work of each is the same again, and not only its start.
    pub saves_work: bool,
}

/// Returns what does in one process what a command did that was started again and again.
pub fn in_one_process(label: &str) -> Option<InOneProcess> {
    let (program, words) = split(label)?;
    // The options of git before its command have values.
    let mut words = words.into_iter();
    let mut command = words.next();
    while let Some(word) = command.filter(|word| word.starts_with('-')) {
        command = if matches!(word, "-C" | "-c") { words.nth(1) } else { words.next() };
    }
    table::find(program, |fact| match fact {
        Fact::InOne(way) => Some(InOneProcess { way, saves_work: false }),
        Fact::ForMany(ways) => {
            let known = ways.iter().find(|(name, ..)| Some(*name) == command);
            known.map(|(_, way, saves_work)| InOneProcess { way, saves_work: *saves_work })
        }
        _ => None,
    })
}

/// Whether it is known what the start of a program takes by what it reads.
pub fn is_loaded_by_reading(program: &str) -> bool {
    let reads = |fact: &Fact| matches!(fact, Fact::Loads(Load::PerByteNs(_))).then_some(());
    table::find(program, reads).is_some()
}

/// Returns the CPU time that the start of a program takes, about. `read_bytes`: what it read, if that
/// was nothing but what it was loaded from; `cpu_ns`: what it used.
pub fn loading_ns(program: &str, read_bytes: Option<u64>, cpu_ns: u64) -> Option<u64> {
    table::find(program, |fact| match fact {
        Fact::Loads(Load::PerByteNs(ns)) => Some(read_bytes?.saturating_mul(*ns).min(cpu_ns)),
        Fact::Loads(Load::AtLeastNs(ns)) => Some(*ns),
        _ => None,
    })
}

/// Returns what makes a program write at once what it would keep in its own buffer.
pub fn unbuffered(command: &str) -> String {
    let program = program_name(command).unwrap_or_default();
    let way = |fact: &Fact| match fact {
        Fact::EachLine(option, ..) if !option.is_empty() => Some(format!("{program} {option}")),
        Fact::Flushes(way) => Some(String::from(*way)),
        _ => None,
    };
    table::find(program, way).unwrap_or_else(|| String::from("stdbuf -oL in front of it"))
}

/// Returns the variable that, in its environment, makes a program write in small pieces.
pub fn unbuffered_by(program: &str) -> Option<&'static str> {
    table::find(program, |fact| match fact {
        Fact::SmallByVariable(name) => Some(*name),
        _ => None,
    })
}

/// Returns what makes a program write more at once, where its environment keeps it from that as an option
/// does.
pub fn buffering_by_variable(label: &str) -> Option<String> {
    let (program, arguments) = split(label)?;
    let variable = unbuffered_by(program)?;
    let mut flags = small_by(program, false).unwrap_or_default().iter();
    // Either alone keeps it from that.
    Some(match flags.find(|flag| arguments.contains(flag)) {
        Some(flag) => format!("leave out {flag} and unset {variable}"),
        None => format!("unset {variable}"),
    })
}

/// Returns what makes a program transfer more at once; `reads`: when it reads. `program` is the one
/// in the command that used most CPU time.
pub fn buffering(label: &str, program: &str, reads: bool) -> String {
    const BY_THE_SHELL: &str =
        "use awk in place of the shell's read, which takes one byte a call from a pipe";
    let shell = is_shell(program);
    let (program, arguments) = split(label).unwrap_or(("", Vec::new()));
    let flags = small_by(program, reads).unwrap_or_default();
    if flags.iter().any(|flag| arguments.contains(flag)) {
        return format!("leave out {}", flags[0]);
    }
    let is_told = || may_be_told(program, &arguments);
    let larger = |fact: &Fact| match fact {
        Fact::LargerBy(way) => Some(*way).filter(|_| is_told()),
        Fact::LargerWritesBy(way) if !reads => Some(*way).filter(|_| is_told()),
        _ => None,
    };
    String::from(match program {
        // These count blocks, unless they are told to count bytes.
        "dd" if arguments.iter().any(|word| counts_blocks(word)) => {
            "set a larger block size, and count in bytes \
             (bs=64K iflag=fullblock,skip_bytes,count_bytes oflag=seek_bytes)"
        }
        "dd" if !reads => "set a larger block size (bs=64K)",
        "dd" => "set a larger block size (bs=64K iflag=fullblock)",
        "while" | "until" | "for" if !reads => match label.contains('>') {
            true => "redirect the output of the whole loop once, or use awk",
            // That is one redirection already.
            false => {
                "use awk in place of the shell's loop, which writes at the end of each command"
            }
        },
        "while" | "until" | "for" => BY_THE_SHELL,
        _ => match table::find(program, larger) {
            Some(way) => way,
            None if shell && reads => BY_THE_SHELL,
            None if shell => "redirect the output of a whole loop once, or use awk",
            // To a pipe, the C library writes in blocks unless the program flushes: stdbuf helps
            // none that writes little at once, and programs of Go or Java not at all.
            None if !reads => {
                "let it gather its output (a buffered writer in its code, or an option of its own)"
            }
            None => "let it read in larger blocks (in its code, or by an option of its own)",
        },
    })
}

/// Whether the text of a program may have what makes it write in small pieces: it is in a file, or it has
/// that. gawk writes each line at once into a command, by `print | "sort"`, whatever it is told.
fn may_be_told(program: &str, arguments: &[&str]) -> bool {
    let words = table::find(program, |fact| match fact {
        Fact::SmallByText(words) => Some(*words),
        _ => None,
    });
    let Some(words) = words else { return true };
    let is_option = |word: &&&str| word.starts_with('-') && !word.starts_with("--");
    let mut options = arguments.iter().filter(is_option);
    let is_shown = match table::is(program, Fact::ByAwk) {
        true => !options.any(|word| word.starts_with("-f")),
        false => options.any(|word| word.ends_with(['e', 'E', 'c'])),
    };
    !is_shown || arguments.iter().any(|word| words.iter().any(|text| word.contains(text)))
}

/// Whether an operand of dd is a number of blocks.
fn counts_blocks(word: &str) -> bool {
    ["count=", "skip=", "iseek=", "seek=", "oseek="].iter().any(|name| word.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `xargs -n 100` forgets `-I{}` and passes on the braces, `basename` takes one name, and
    /// blocks of another size are skipped and counted as such.
    #[test]
    fn what_is_advised_does_not_change_what_is_done() {
        let of = |label: &str| instead_of_processes(label, "", [].into_iter()).expect("a way");
        assert!(of("xargs -n1 basename").contains("if it takes several"), "{}", of("xargs -n1"));
        // A shell around `cp` started as many of them, and took longer.
        for options in ["-I{}", "-I {}", "--replace", "-0rI{}", "-i"] {
            let hint = of(&format!("xargs {options} cp {{}} d"));
            assert!(hint.ends_with("(xargs -n 100 without -I, as cp -t DIR)"), "{hint}");
            let hint = of(&format!("xargs {options} sh -c 'cp {{}} d'"));
            assert!(hint.contains("sh -c 'for i; do ...; done' sh"), "{hint}");
        }
        let jobs = |label| instead_of_processes(label, "", [].into_iter());
        assert_eq!(jobs("parallel 'sort {} | tail -1'"), None);
        assert!(jobs("parallel md5sum").is_some());
        // These are options of what xargs runs.
        for label in ["xargs -n 1 grep -I x", "xargs -d ' ' sed -i s/a/b/"] {
            assert!(of(label).ends_with("(xargs -n 100)"), "{}", of(label));
        }
        let dd = |label| buffering(label, "dd", true);
        assert!(dd("dd if=f bs=1").ends_with("(bs=64K iflag=fullblock)"));
        for label in ["dd bs=1 skip=10", "dd bs=1 count=9", "dd bs=1 seek=9"] {
            assert!(dd(label).contains("skip_bytes,count_bytes"), "{label}");
        }
    }

    /// `sh -c 'gzip "$1"' sh {} +` packs one file of many and says nothing; `cp {} d +` is refused.
    #[test]
    fn find_is_told_to_give_many_files_to_what_can_take_them() {
        let of =
            |label| instead_of_processes(label, "find", ["gzip"].into_iter()).unwrap_or_default();
        assert!(of("find . -exec gzip {} \\;").starts_with("-exec with + at its end instead"));
        for label in ["find . -exec sh -c 'gzip \"$1\"' sh {} \\;", "find -exec bash -ec x {} ;"] {
            assert!(of(label).contains("sh -c 'for i; do ...; done' sh {} +"), "{}", of(label));
        }
        assert!(of("find . -exec cp {} d ';'").contains("cp -t DIR {} +"));
        assert!(of("find . -exec sh loop.sh {} +").starts_with("xargs -n 100"));
        // `grep -q x {} + -print` prints the names of all files.
        for label in
            ["find . -exec grep -q x {} \\; -print", "find . -exec a {} \\; -exec b {} \\;"]
        {
            assert!(of(label).starts_with("a program that tells of many files"), "{}", of(label));
        }
        assert!(of("find . -exec gzip {} \\; 2>/dev/null").starts_with("-exec with + at its end"));
    }

    /// dash prints nothing for `$(<file)`, also where it runs a script that has its own name. make
    /// and python were told to use awk for the whole loop, and `$((...))`.
    #[test]
    fn only_what_a_shell_knows_is_advised() {
        let by = |label, starter| {
            let programs = ["cat", "basename", "expr"].into_iter();
            instead_of_processes(label, starter, programs).expect("a way")
        };
        let of = |starter| by("sh x", starter);
        for label in ["loop.sh (the script itself)", "./loop.sh"] {
            let said = by(label, "loop.sh");
            assert!(said.starts_with("${i##*/} in place of basename, $((...))"), "{said}");
        }
        assert_eq!(by("make -s", "sh"), "one recipe for many files");
        assert!(by("/usr/bin/python3 a.py", "python3").starts_with("what the program can do"));
        assert!(by("for i in *; do cat; done", "bash").starts_with("$(<file) in place of cat"));
        assert!(of("bash").starts_with("$(<file) in place of cat, ${i##*/}"), "{}", of("bash"));
        for plain in ["sh", "dash"] {
            assert!(of(plain).starts_with("${i##*/} in place of basename, $("), "{}", of(plain));
        }
    }

    /// "awk for the whole loop, or xargs -n 100" was said of loops over git commit, git blame, `git log
    /// -1 -- "$f"` and sqlite3, of which neither does the same.
    #[test]
    fn a_loop_is_told_what_does_the_same_as_its_programs() {
        let of = |label, programs: &[&'static str]| {
            instead_of_processes(label, "bash", programs.iter().copied())
        };
        let said = |text: &str| Some(String::from(text));
        let bash = "bash x.sh (the script itself)";
        assert_eq!(of(bash, &["cut", "sed", "bash"]), said("awk for the whole loop"));
        assert_eq!(
            of(bash, &["expr", "wc"]),
            said("$((...)) in place of expr or bc, or awk for the whole loop")
        );
        assert_eq!(of(bash, &["md5sum", "rm"]), said("xargs -n 100 to start fewer"));
        for programs in
            [&["git", "wc"][..], &["git"], &["sqlite3"], &["mytool"], &["md5sum", "git"]]
        {
            assert_eq!(of(bash, programs), None, "{programs:?}");
        }
        let log = "while read -r f; do echo $(git log -1 -- \"$f\"); done";
        assert_eq!(of(log, &["git"]), said("one git log --name-only for all paths"));
        assert_eq!(of("xargs -n1 git log -1 --", &["git"]), of(log, &["git"]));
        assert!(of(bash, &["python3"]).is_some_and(|way| way.starts_with("one python for all")));
    }

    #[test]
    fn one_git_takes_a_list() {
        let of = |label| in_one_process(label).map_or("", |it| it.way);
        assert!(of("git hash-object ...").contains("--stdin-paths"));
        assert!(of("/usr/bin/git -C dir -c a=b cat-file -s x").contains("--batch"));
        assert!(of("python3.11 x.py").starts_with("one python for all"));
        assert_eq!((of("git push"), of("git"), of("mytool x")), ("", "", ""));
    }

    /// `perl -e 'while(sysread(STDIN,$b,1)){...}'` was told to leave `$|` unset (2.9x), and
    /// `os.read(0,1)` to leave out flush=True: neither reads a byte more by that.
    #[test]
    fn what_reads_a_byte_a_call_is_not_told_how_to_write() {
        for label in ["perl -e 'sysread(...)'", "python3 -c 'os.read(0,1)'", "python3 -u x.py"] {
            let hint = buffering(label, "", true);
            assert!(hint.starts_with("let it read in larger blocks"), "{label}: {hint}");
        }
        assert_eq!(buffering("perl -e '$|=1'", "perl", false), "leave $| unset");
        assert_eq!(buffering("sed -u p", "sed", true), "leave out -u");
        assert!(buffering("python3 x.py", "python3", false).starts_with("let it buffer"));
    }

    /// gawk writes into a command line by line: it was told to leave out what it had not.
    #[test]
    fn nobody_is_told_to_leave_out_what_is_not_there() {
        let of = |label| buffering(label, "", false);
        for label in [
            "gawk '{print | \"sort\"}'",
            "awk {print | \"cat 1>&2\"}",
            "perl -ne 'syswrite STDOUT, $_'",
            "python3 -c 'import os; os.write(1, b\"x\")'",
        ] {
            let hint = of(label);
            assert!(hint.starts_with("let it gather its output"), "{label}: {hint}");
        }
        for label in ["awk '{print; fflush()}'", "mawk -W interactive 1", "gawk -f x.awk"] {
            assert_eq!(of(label), "leave out fflush() and -W interactive");
        }
        assert_eq!((of("perl x.pl"), of("perl -pe '$|=1'")), (of("perl"), of("perl -ne '$|++'")));
        assert!(of("python3 -c 'print(1, flush=True)'").starts_with("let it buffer"));
        assert!(buffering("mawk 1", "", true).starts_with("let it read"));
        assert!(buffering("mawk -W interactive 1", "", true).contains("-W interactive"));
    }

    /// `python3 -u` under PYTHONUNBUFFERED=1 was to leave out -u (1.7x), which gained 1.1x.
    #[test]
    fn a_variable_that_does_what_an_option_does_is_named_too() {
        let of = |label| buffering_by_variable(label).unwrap_or_default();
        assert_eq!(of("python3 -u gen.py"), "leave out -u and unset PYTHONUNBUFFERED");
        assert_eq!(of("python3 gen.py"), "unset PYTHONUNBUFFERED");
        assert_eq!(of("grep --line-buffered x"), "");
    }

    /// A loop in front of `sort` was to redirect its output once ("6.5x"): it goes into one pipe.
    #[test]
    fn a_loop_that_writes_into_a_pipe_is_not_told_to_redirect_itself() {
        let hint = |label| buffering(label, "bash", false);
        assert!(hint("for i in $(seq 9); do echo $i; done").starts_with("use awk in place of"));
        let each = "while read -r x; do echo $x >> f; done";
        assert!(hint(each).starts_with("redirect the output of the whole loop once"));
    }

    #[test]
    fn hints_name_the_flag_that_was_given() {
        let hint = |label| buffering(label, "", false);
        assert_eq!(hint("python3 -u gen.py"), "leave out -u");
        assert_eq!(hint("grep --line-buffered x"), "leave out --line-buffered");
        // Followed, it gained nothing for Go, Java and redis-cli.
        assert!(!hint("mytool").contains("stdbuf"), "{}", hint("mytool"));
        // A shell can read no more at once, whatever the text that it has is called.
        for label in ["bash loop.sh", "loop.sh (the script itself)", "{ read x; cat; }"] {
            let hint = buffering(label, "bash", true);
            assert!(hint.starts_with("use awk in place of the shell's read"), "{label}: {hint}");
        }
    }
}
