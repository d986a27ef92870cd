//! Knowledge about common programs: which depend on the locale, which keep to a rate, which have a
//! variant that uses several CPUs. What goes by the name is in one table (`table`).

use crate::command::Command;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
pub use table::StatusMeaning;
pub(crate) use table::{Fact, is};

mod changed;
mod filters;
mod hints;
mod table;

pub use changed::{
    AES_CIPHER, cat_of_one_file, line_buffered, parallel, uncompressed, with_buffer, with_threads,
    without_cat, writes_text,
};
pub use filters::{EachLine, each_line, is_line_filter, with_grep};
pub use hints::{
    InOneProcess, buffering, buffering_by_variable, flush_once, in_one_pass, in_one_process,
    instead_of_processes, is_loaded_by_reading, loading_ns, saves_only_shells, unbuffered,
    unbuffered_by,
};

/// Whether the speed of a program depends on the locale, as it is used in a command.
pub fn locale_matters(program: &str, label: &str) -> bool {
    let words = || split(label).filter(|(first, _)| *first == program).map(|(_, words)| words);
    table::facts(program).iter().any(|fact| match fact {
        Fact::Locale => true,
        Fact::LocaleWith(letters, texts) => {
            let given = |words: Vec<&str>| letters.chars().any(|it| has_short(&words, it));
            words().is_some_and(given) || texts.iter().any(|text| label.contains(text))
        }
        Fact::LocaleOfKeys => !words().is_some_and(|words| sorts_numbers(&words)),
        _ => false,
    })
}

/// Whether a sort with these arguments compares numbers or versions first: measured on 400 k lines, it
/// takes as long in each locale. Months (`-M`) take a third of the time in C.
fn sorts_numbers(words: &[&str]) -> bool {
    let is_number = |c: char| "nghV".contains(c);
    let (mut all, mut first) = (false, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(options) = word.strip_prefix('-') else { continue };
        if let Some(name) = options.strip_prefix('-') {
            let kinds = ["numeric", "general-numeric", "human-numeric", "version"];
            let kind = name.strip_prefix("sort=").or_else(|| name.strip_suffix("-sort"));
            all |= kind.is_some_and(|kind| kinds.contains(&kind));
            first = first.or(name.strip_prefix("key="));
            continue;
        }
        let with_value = options.find(['k', 'o', 'S', 't', 'T']);
        let (letters, value) = options.split_at(with_value.unwrap_or(options.len()));
        all |= letters.contains(is_number);
        let value = match value {
            "" => continue,
            letter if letter.len() == 1 => words.next().copied().unwrap_or_default(),
            letter => &letter[1..],
        };
        if options[letters.len()..].starts_with('k') {
            first = first.or(Some(value));
        }
    }
    // What a key says of itself holds there.
    let own = first.filter(|key| key.contains(|c: char| c.is_ascii_alphabetic()));
    own.map_or(all, |key| key.contains(is_number))
}

/// Splits a command as typed into program name and arguments, without directories and assignments.
pub fn split(label: &str) -> Option<(&str, Vec<&str>)> {
    let is_assignment = |word: &&str| {
        let name = word.split('=').next().unwrap_or("");
        word.contains('=')
            && !name.is_empty()
            && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    };
    let mut words = label.split_whitespace().skip_while(is_assignment);
    let program = words.next()?.rsplit('/').next()?;
    Some((program, words.collect()))
}

/// Returns the program of a command as typed, without its directory; none for a group of commands.
pub fn program_name(label: &str) -> Option<&str> {
    let (program, _) = split(label)?;
    let plain = program.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b));
    (plain && !program.is_empty()).then_some(program)
}

/// Whether a command is a loop of the shell.
pub fn is_loop(label: &str) -> bool {
    matches!(split(label), Some(("while" | "until" | "for", _)))
}

/// Whether a command works on each line as it comes: a loop of the shell around `read`, or `xargs`
/// that takes one at a time.
pub fn takes_each_line(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    let one = |pair: &[&str]| matches!(pair, ["-n" | "-L", "1"]);
    let each = |word: &str| matches!(word, "-n1" | "-L1") || replaces(word);
    match program {
        "while" | "until" => words.contains(&"read"),
        "xargs" => {
            let own = own_options(&words);
            own.iter().any(|word| each(word)) || own.windows(2).any(one)
        }
        _ => false,
    }
}

/// Whether `xargs` with these arguments puts each of its own in the place of a word (`-I{}`).
pub fn replaces_words(words: &[&str]) -> bool {
    own_options(words).iter().any(|word| replaces(word))
}

/// Returns the options of `xargs` itself, with their values: what it runs has options too.
fn own_options<'a, 'w>(words: &'w [&'a str]) -> &'w [&'a str] {
    const WITH_VALUE: [&str; 13] = [
        "-a",
        "-d",
        "-E",
        "-I",
        "-L",
        "-n",
        "-P",
        "-s",
        "--arg-file",
        "--delimiter",
        "--max-args",
        "--max-chars",
        "--max-procs",
    ];
    let mut at = 0;
    // A value that is a blank in quotes stands here as two words.
    while let Some(word) = words.get(at).filter(|word| word.starts_with(['-', '\'', '"'])) {
        at += if WITH_VALUE.contains(word) { 2 } else { 1 };
    }
    &words[..at.min(words.len())]
}

/// Whether a word of `xargs` is `-I`, or `-i`, perhaps behind other letters.
fn replaces(word: &str) -> bool {
    let letters = word.trim_start_matches(['-', '0', 'o', 'p', 'r', 't', 'x']);
    let short = word.starts_with('-') && !word.starts_with("--");
    short && letters.starts_with(['I', 'i']) || word.starts_with("--replace")
}

/// Whether a program works on a file from its beginning to its end and says something of it: many of
/// them that read the same one could be one.
pub fn reads_again(program: &str) -> bool {
    in_one_pass(program).is_some()
}

/// Whether a program is known to read its files from the beginning to the end, unless an option lets it
/// leave early.
pub fn reads_files(program: &str) -> bool {
    let whole = |fact: &Fact| {
        matches!(fact, Fact::OnePass(_) | Fact::EndsWithInput | Fact::Gathers | Fact::Packer(_))
    };
    table::facts(program).iter().any(whole)
}

/// Whether a command reads its files to the end. Its words may have lost their quotes.
pub fn reads_to_end(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    let leaves = |fact: &Fact| match fact {
        Fact::Leaves => true,
        Fact::LeavesWith(letters, texts) => {
            letters.chars().any(|letter| has_short(&words, letter))
                || texts.iter().any(|text| label.contains(text))
        }
        _ => false,
    };
    reads_files(program) && !table::facts(program).iter().any(leaves)
}

/// Whether a command sorts whole lines in their plain order.
pub fn sorts_lines(label: &str) -> bool {
    let same = |word: &str| {
        ["-S", "-T", "--parallel", "--buffer-size", "--temporary-directory"]
            .iter()
            .any(|option| word.starts_with(option))
    };
    matches!(split(label), Some(("sort", words)) if words.iter().all(|word| same(word)))
}

/// Whether a command counts equal lines that follow each other.
pub fn counts_lines(label: &str) -> bool {
    matches!(split(label), Some(("uniq", words)) if matches!(words[..], ["-c" | "--count"]))
}

/// Whether a command by its nature starts other programs again and again.
pub fn starts_in_a_loop(label: &str) -> bool {
    is_loop(label) || matches!(split(label), Some(("xargs" | "parallel" | "find", _)))
}

/// Whether a command, of which these are the program and the first argument, begins to write only when it
/// has read everything, and takes time for that.
pub fn gathers(program: &str, argument: &str) -> bool {
    is(program, Fact::Gathers) || argument == "sort"
}

/// Whether a command is known to wait for the disk after each piece of work.
pub fn flushes(label: &str) -> bool {
    let waits = |fact: &Fact| matches!(fact, Fact::FlushOnce(_, with) if label.contains(with));
    program_name(label).is_some_and(|program| table::facts(program).iter().any(waits))
}

/// Whether a program ends with its input, and writes little before.
pub fn ends_with_input(program: &str) -> bool {
    is(program, Fact::EndsWithInput)
}

/// Whether a program is a shell: a process that runs one was forked by a script and started nothing
/// else.
pub fn is_shell(program: &str) -> bool {
    is_posix_shell(program) || is(program, Fact::Shell)
}

/// Whether a program starts commands that do not belong together: a shell or a build tool.
pub fn starts_anything(program: &str) -> bool {
    is_shell(program) || is(program, Fact::Builds)
}

/// Whether a program is run as a script where it is the only one: what it starts is found from outside.
pub fn runs_as_script(program: &str) -> bool {
    is(program, Fact::RunAsScript)
}

/// Whether what a program starts is no part of its own work: one that runs a command, whatever
/// that is, and a language that scripts are written in.
pub fn runs_others(program: &str) -> bool {
    starts_anything(program) || is(program, Fact::RunsOthers)
}

/// Whether a command stops what it runs at each of its calls, or runs it step by step.
pub fn traces(label: &str) -> bool {
    program_name(label).is_some_and(|program| is(program, Fact::Traces))
}

/// Whether a program starts others and waits for them: also one that runs a command on a list, or
/// under some condition.
pub fn is_organizer(program: &str) -> bool {
    starts_anything(program) || is(program, Fact::Organizes)
}

/// Whether a program runs several jobs at once, if it is told to.
pub fn runs_jobs(program: &str) -> bool {
    is(program, Fact::RunsJobs(true)) || is(program, Fact::RunsJobs(false))
}

/// Whether the jobs that a program runs are a list, in any order.
pub fn takes_a_list(program: &str) -> bool {
    is(program, Fact::RunsJobs(true))
}

/// Whether the run-time system of a program gathers output itself.
pub fn has_own_buffer(program: &str) -> bool {
    is(program, Fact::OwnBuffer)
}

/// Whether a command packs what it reads.
pub fn packs(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    packed_ending(program).is_some() && !unpacks_by(&words)
}

/// Returns the names of the files to which a packer packs the files that it is given; none where it writes to
/// its standard output.
pub fn packed(label: &str) -> Vec<String> {
    let Some((program, words)) = split(label).filter(|_| packs(label)) else { return Vec::new() };
    let after = |option: &str| words.iter().position(|word| *word == option).map(|at| at + 1);
    if has_short(&words, 'c') || words.contains(&"--stdout") {
        return Vec::new();
    }
    if let Some(name) = after("-o").and_then(|at| words.get(at)) {
        return Vec::from([String::from(*name)]);
    }
    let ending = packed_ending(program).unwrap_or_default();
    let files = words.iter().filter(|word| !word.starts_with('-'));
    files.map(|file| format!("{file}{ending}")).collect()
}

fn packed_ending(program: &str) -> Option<&'static str> {
    table::find(program, |fact| match fact {
        Fact::Packer(ending) => Some(*ending),
        _ => None,
    })
}

/// Returns the files that a command unpacks.
pub fn unpacks(label: &str) -> impl Iterator<Item = &str> {
    let (program, words) = split(label).unwrap_or_default();
    let archive = if is(program, Fact::Archiver) { extracted(&words) } else { None };
    let is_it = is_unpacking(program, &words);
    words.into_iter().filter(move |word| is_it && !word.starts_with('-')).chain(archive)
}

/// Whether a command unpacks what it reads, and names no file: tar has such a one below it.
pub fn unpacks_its_input(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    is_unpacking(program, &words) && words.iter().all(|word| word.starts_with('-'))
}

fn is_unpacking(program: &str, words: &[&str]) -> bool {
    is(program, Fact::Unpacker) || packed_ending(program).is_some() && unpacks_by(words)
}

/// Returns the archive that a tar with these arguments extracts or lists.
fn extracted<'a>(words: &[&'a str]) -> Option<&'a str> {
    let (mut extracts, mut file) = (false, None);
    for (at, word) in words.iter().enumerate() {
        let next = |behind: usize| words.get(at + 1 + behind).copied();
        if let Some(name) = word.strip_prefix("--") {
            extracts |= matches!(name, "extract" | "get" | "list");
            let own = if name == "file" { next(0) } else { name.strip_prefix("file=") };
            file = file.or(own);
            continue;
        }
        // The values of letters without a dash stand behind all of them.
        let (letters, dashed) = match word.strip_prefix('-') {
            Some(letters) => (letters, true),
            None if at == 0 => (*word, false),
            None => continue,
        };
        let options = letters.split_once('f').map_or(letters, |(before, _)| before);
        extracts |= options.contains(['x', 't']) || !dashed && letters.contains(['x', 't']);
        let own = letters.split_once('f').and_then(|(before, behind)| match dashed {
            true if !behind.is_empty() => Some(behind),
            true => next(0),
            false => next(before.matches(['b', 'C', 'I', 'T', 'X']).count()),
        });
        file = file.or(own);
    }
    file.filter(|file| extracts && *file != "-")
}

fn unpacks_by(words: &[&str]) -> bool {
    has_short(words, 'd')
        || words.iter().any(|word| matches!(*word, "--decompress" | "--uncompress"))
}

/// Whether a program is a shell with the grammar of POSIX.
pub fn is_posix_shell(program: &str) -> bool {
    is(program, Fact::PosixShell)
}

/// Whether a command spends its CPU time on encryption.
pub fn encrypts(label: &str) -> bool {
    program_name(label).is_some_and(|program| is(program, Fact::Encrypts))
}

/// Returns what a status says that is an answer of a program, and not a failure.
pub(crate) fn answer(program: &str, status: i32) -> Option<StatusMeaning> {
    table::find(program, |fact| match fact {
        Fact::Answers(code, meaning) if *code == status => Some(*meaning),
        _ => None,
    })
}

/// Whether a command as typed is one simple command. A shell that runs more than one may look at the
/// status of each.
pub fn is_one_command(label: &str) -> bool {
    Command::read(label).is_some()
}

/// Whether a command is known to have read all its input before it writes.
pub fn has_read_all(label: &str) -> bool {
    Command::read(label).is_some_and(|command| command.program() == "sort")
}

/// Whether a command may leave its input before the end, by its nature: `head`, what looks for one
/// match, commands of a shell, and what reads nothing.
pub fn may_leave_early(label: &str) -> bool {
    let Some(command) = Command::read(label) else { return true };
    let has = |text: &str| command.arguments().any(|word| word.contains(text));
    let leaves = |fact: &Fact| match fact {
        Fact::Leaves | Fact::PosixShell | Fact::Shell => true,
        Fact::LeavesWith(letters, texts) => {
            letters.chars().any(|letter| command.has_letter(letter))
                || texts.iter().any(|text| has(text))
        }
        _ => false,
    };
    // Behind `nice` or `env` stands another program.
    let mut words = core::iter::once(command.program()).chain(command.arguments());
    command.redirects('<')
        || words
            .any(|word| table::facts(word.rsplit('/').next().unwrap_or(word)).iter().any(leaves))
}

/// Whether a one-letter option is given, alone or within a group as in `pv -qL 20m`.
fn has_short(arguments: &[&str], flag: char) -> bool {
    let group = |word: &str| word.starts_with('-') && !word.starts_with("--");
    arguments.iter().any(|word| group(word) && word.contains(flag))
}

/// Whether a program takes tens of milliseconds to start.
pub fn starts_slowly(program: &str) -> bool {
    is(program, Fact::StartsSlowly)
}

/// Whether a command has a rate limit, and may sleep to keep it.
pub fn keeps_a_pace(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    let long = |name: &str| !name.is_empty() && words.iter().any(|word| word.starts_with(name));
    let paces = |fact: &Fact| match fact {
        Fact::KeepsPace => true,
        Fact::PaceWith(letters, name) => {
            letters.chars().any(|letter| has_short(&words, letter)) || long(name)
        }
        _ => false,
    };
    let facts = table::facts(program.trim_matches(['\'', '"']));
    facts.iter().any(paces) || is_buffer(label) && long("--rate")
}

/// Returns the rate to which a command keeps, in bytes a second, where its options say it.
pub fn rate_of(label: &str) -> Option<u64> {
    let (program, words) = split(label)?;
    let program = program.trim_matches(['\'', '"']);
    let rate = |fact: &Fact| match fact {
        Fact::RateIs(letters, name) => Some((letters.chars().next().unwrap_or('\0'), *name)),
        _ => None,
    };
    let (letter, name) = match is_buffer(label) {
        true => ('\0', "--rate"),
        false => table::find(program, rate)?,
    };
    let value = words.iter().enumerate().find_map(|(at, word)| {
        let next = || words.get(at + 1).copied();
        match word.strip_prefix("--") {
            Some(_) if name.is_empty() || !word.starts_with(name) => None,
            Some(_) => word.split_once('=').map(|(_, value)| value).or_else(next),
            None if word.starts_with('-') => match word.split_once(letter)?.1 {
                "" => next(),
                value => Some(value),
            },
            None => None,
        }
    })?;
    bytes(value)
}

/// Returns the number that a size stands for, in units of 1024: programs differ, and the larger one
/// promises less.
fn bytes(size: &str) -> Option<u64> {
    let size = size.trim_matches(['\'', '"']);
    let digits = size.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(size.len());
    let shift = match size[digits..].chars().next() {
        None => 0,
        Some('k' | 'K') => 10,
        Some('m' | 'M') => 20,
        Some('g' | 'G') => 30,
        Some(_) => return None,
    };
    let number: f64 = size[..digits].parse().ok()?;
    Some((number * (1_u64 << shift) as f64) as u64).filter(|bytes| *bytes > 0)
}

/// Whether a command is `weir buffer`.
pub fn is_buffer(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    program.trim_matches(['\'', '"']) == "weir" && words.first() == Some(&"buffer")
}

/// Whether a command only passes on what it reads, at its reader's rate: `weir buffer`, unless it
/// has a rate limit of its own.
pub fn is_relay(label: &str) -> bool {
    is_buffer(label) && !label.split_whitespace().any(|word| word.starts_with("--rate"))
}

/// A variant of a (de)compressor that uses several CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// `pigz`, for `gzip`.
    Pigz,
    /// `rapidgzip`, for `gzip -d`. (`pigz -d` unpacks on one CPU.)
    Rapidgzip,
    /// `lbzip2`, for `bzip2`.
    Lbzip2,
    /// `xz` with threads.
    Xz,
    /// `xz -d` with threads, which helps where the file was compressed in blocks.
    Unxz,
    /// `zstd` with threads.
    Zstd,
}

/// Returns how many bytes a command must handle to have work for several threads: they share out
/// blocks, those of xz three times as large as the dictionary of its level. 0 for others.
pub fn least_bytes(label: &str) -> u64 {
    const USUAL: u64 = 32 << 20;
    const XZ: [u64; 10] = [1, 3, 6, 12, 12, 24, 24, 48, 96, 192];
    let Some((program, words)) = split(label) else { return 0 };
    match program {
        // Two blocks of pigz; a third more than one of lbzip2.
        "gzip" => 256 << 10,
        "bzip2" => 1200 << 10,
        "zstd" | "xzcat" | "unxz" => USUAL,
        "xz" if has_short(&words, 'd') || words.contains(&"--decompress") => USUAL,
        // A third of a block more than one is worth a second thread.
        "xz" => (XZ[xz_level(&words)] << 20) / 3 * 4,
        _ => 0,
    }
}

/// Returns the level of an xz with these arguments.
fn xz_level(words: &[&str]) -> usize {
    // The digits of `-T4` are its own.
    let level = |word: &&str| match *word {
        "--best" => Some(9),
        "--fast" => Some(0),
        word if word.starts_with("--") || word.contains(['T', 'F', 'C', 'S', 'M']) => None,
        word => word.strip_prefix('-')?.bytes().rev().find(u8::is_ascii_digit).map(|b| b - b'0'),
    };
    words.iter().rev().find_map(level).map_or(6, usize::from)
}

impl Parallel {
    /// How much more it does in the same CPU time than what it replaces; measured on tar archives
    /// and reads of a genome (docs/design/advice.md).
    pub fn efficiency(self) -> f64 {
        match self {
            Parallel::Pigz => 1.25,
            Parallel::Lbzip2 => 1.8,
            Parallel::Rapidgzip => 0.9,
            _ => 1.0,
        }
    }
}

/// What to use in place of a (de)compressor that uses one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instead {
    /// What to type in its place.
    pub typed: &'static str,
    /// Whether that is installed; `None` for the same program with another option.
    pub is_installed: Option<bool>,
    /// Whether it helps only where the file was compressed in blocks.
    pub needs_blocks: bool,
    /// Whether it does the same in less CPU time.
    pub needs_less: bool,
}

/// Returns what to use in place of a (de)compressor that uses one CPU. `has`: what is installed.
pub fn instead(label: &str, has: &dyn Fn(&str) -> bool) -> Option<Instead> {
    let form = parallel_form(label)?;
    let (typed, program) = match form {
        Parallel::Pigz => ("pigz", Some("pigz")),
        Parallel::Rapidgzip if makes_a_file(label) => ("rapidgzip -d", Some("rapidgzip")),
        Parallel::Rapidgzip => ("rapidgzip -d -c", Some("rapidgzip")),
        Parallel::Lbzip2 => ("lbzip2", Some("lbzip2")),
        Parallel::Xz => ("xz -T0", None),
        Parallel::Unxz if makes_a_file(label) => ("xz -T0 -d", None),
        Parallel::Unxz => ("xz -T0 -dc", None),
        Parallel::Zstd => ("zstd -T0", None),
    };
    Some(Instead {
        typed,
        is_installed: program.map(has),
        needs_blocks: form == Parallel::Unxz,
        needs_less: form.efficiency() > 1.0,
    })
}

/// Returns the variant of a one-CPU (de)compressor that uses several, if one is known.
pub fn parallel_form(label: &str) -> Option<Parallel> {
    let (program, arguments) = split(label)?;
    let short = |flag: char| has_short(&arguments, flag);
    let long = |name: &str| arguments.iter().any(|a| a.starts_with(name));
    let decompress = short('d') || long("--decompress") || long("--uncompress");
    let threads = short('T') || long("--threads");
    let only_reads = short('t') || short('l') || long("--test") || long("--list");
    Some(match program {
        "gzip" | "zcat" | "gunzip" | "xz" | "xzcat" | "unxz" | "zstd" if only_reads => return None,
        "gzip" if !decompress => Parallel::Pigz,
        // What is not packed, and directories, are nothing to it.
        "gzip" | "zcat" | "gunzip" if short('f') || short('r') || names_several(&arguments) => {
            return None;
        }
        "gzip" | "zcat" | "gunzip" => Parallel::Rapidgzip,
        "bzip2" | "bzcat" | "bunzip2" => Parallel::Lbzip2,
        "xz" | "xzcat" | "unxz" if threads => return None,
        "xz" if !decompress => Parallel::Xz,
        "xz" | "xzcat" | "unxz" => Parallel::Unxz,
        "zstd" if !decompress && !threads => Parallel::Zstd,
        _ => return None,
    })
}

/// Whether a decompressor makes a file beside the packed one, as `gunzip a.gz` does.
pub fn makes_a_file(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    if program.ends_with("cat") || has_short(&words, 'c') || words.contains(&"--stdout") {
        return false;
    }
    operands(&words).next().is_some()
}

/// Whether arguments may name more than one file, or standard input by `-`. rapidgzip unpacks one
/// file and says nothing of the others.
fn names_several(arguments: &[&str]) -> bool {
    // A variable in quotes is one word.
    let open = |word: &str| match word.starts_with('"') {
        true => word.contains('@'),
        false => word.contains(['*', '?', '[', '{', '$', '`']),
    };
    operands(arguments).count() > 1 || operands(arguments).any(open) || arguments.contains(&"-")
}

/// Returns the arguments that are neither options nor redirections.
fn operands<'a>(arguments: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut words = arguments.iter().copied();
    core::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            match word.ends_with(['<', '>']) {
                true => drop(words.next()),
                false if !word.starts_with('-') && !word.contains(['<', '>']) => return Some(word),
                false => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_known() {
        let of = |label, installed: &[&str]| {
            let found = instead(label, &|name| installed.contains(&name)).expect("another one");
            (found.typed, found.is_installed)
        };
        // pigz decompresses on one CPU, and measurements showed no gain.
        assert_eq!(of("gzip -dc f", &["pigz"]), ("rapidgzip -d -c", Some(false)));
        assert_eq!(of("zcat f", &["rapidgzip"]), ("rapidgzip -d -c", Some(true)));
        assert_eq!(of("gunzip f", &[]).0, "rapidgzip -d", "it makes a file");
        assert_eq!(of("unxz f", &[]), ("xz -T0 -d", None));
        assert_eq!(of("bzip2", &["pigz"]), ("lbzip2", Some(false)));
        assert_eq!(of("gzip", &[]), ("pigz", Some(false)));
    }

    /// `sort -n` in en_US was to gain 4.7x by LC_ALL=C, and gained 1.00 (0.92 to 1.05). So do -g, -h and
    /// -V; -M and -f take three and six times as long as in C, and of grep `[[:alpha:]]` 13 times.
    #[test]
    fn the_locale_matters_where_text_is_compared_by_it() {
        for label in [
            "sort",
            "sort -u",
            "sort -k2",
            "sort -M",
            "sort -f",
            "sort -k1,1 -k2,2n",
            "sort -t n",
            "sort -n -k2,2f",
            "sort -k 2 -k 3n",
            "sort -S 1G -o num",
            "/usr/bin/sort -tn -k2",
        ] {
            assert!(locale_matters("sort", label), "{label}");
        }
        for label in [
            "sort -n",
            "sort -rn",
            "sort -g",
            "sort -h",
            "sort -V",
            "sort -k3n",
            "sort -k 2,2nr -k1",
            "sort -t, -nk2",
            "sort --key=2n",
            "sort --numeric-sort",
            "sort --sort=version -u",
        ] {
            assert!(!locale_matters("sort", label), "{label}");
        }
        assert!(locale_matters("sort", "while read x; do sort; done"), "how it sorts is not known");
        let grep = |label| locale_matters("grep", label);
        assert!(
            grep("grep -ci host7") && grep("grep -E '[[:alpha:]]{3}'") && grep("grep -o '\\w*'")
        );
        assert!(!grep("grep -E 'host(7|9)+ .*agent'") && !grep("grep -v x"));
        assert!(!locale_matters("tr", "tr a-z A-Z"), "it knows bytes only");
    }

    /// `xargs grep -I` was taken for an xargs that takes one line at a time.
    #[test]
    fn xargs_has_the_options_before_its_command() {
        for label in ["xargs -n 1 f", "xargs -0 -L1 f", "xargs -P 4 -I % f %", "xargs -0I{} f"] {
            assert!(takes_each_line(label), "{label}");
        }
        for label in ["xargs grep -I x", "xargs curl -L 1", "xargs -n 8 f -n1"] {
            assert!(!takes_each_line(label), "{label}");
        }
    }

    #[test]
    fn parallel_forms_fit_the_command() {
        assert_eq!(parallel_form("gzip -dc a.gz"), Some(Parallel::Rapidgzip));
        assert_eq!(parallel_form("LANG=C /bin/gzip -9"), Some(Parallel::Pigz));
        for label in ["xz -T4", "xzcat -T0 a.xz", "unxz --threads=2"] {
            assert_eq!(parallel_form(label), None, "{label}");
        }
        assert_eq!(parallel_form("zstd -dc a.zst"), None);
        assert_eq!(parallel_form("zstd -T0 -19"), None);
        assert_eq!(parallel_form("zstd -19"), Some(Parallel::Zstd));
        assert_eq!(parallel_form(""), None);
        // rapidgzip unpacks one file and says nothing of the others. `-` is a file's name to it,
        // and what is not packed an error.
        for label in [
            "zcat a.gz b.gz",
            "gzip -dc a.gz 2>log b.gz",
            "gzip -dc log.*.gz",
            "gunzip -c $files",
            "gzip -dc -",
            "zcat -f a",
            "gunzip -r d",
        ] {
            assert_eq!(parallel_form(label), None, "{label}");
        }
        for label in ["zcat a.gz 2> log", "gzip -dc < a.gz", "gunzip", "gzip -dc \"$f\""] {
            assert_eq!(parallel_form(label), Some(Parallel::Rapidgzip), "{label}");
        }
        // To test or to list takes one CPU, whichever program does it.
        for label in ["gzip -tv a.gz", "gunzip --test a.gz", "zstd -t a.zst", "xz -l a.xz"] {
            assert_eq!(parallel_form(label), None, "{label}");
        }
    }

    #[test]
    fn a_block_of_xz_is_as_large_as_its_level_says() {
        let mib = |label| least_bytes(label) >> 20;
        assert_eq!([mib("xz"), mib("xz -6"), mib("xz -T2 -6e"), mib("xz -T1")], [32; 4]);
        assert_eq!(
            [mib("xz -1"), mib("xz -c9"), mib("xz --best"), mib("zstd -3")],
            [4, 256, 256, 32]
        );
        assert_eq!([mib("xz -dc9"), mib("bgzip"), mib("samtools sort -")], [32, 0, 0]);
    }

    /// A writer got 192 KiB further before `head` left than under a shell, and ended with another
    /// status.
    #[test]
    fn readers_that_leave_early_are_known_by_their_text() {
        for label in [
            "head -1",
            "LC_ALL=C nice /usr/bin/head -n 5",
            "grep -q x",
            "grep -im1 x",
            "grep --max-count=1 x",
            "sed 10q",
            "sed -n '/x/{p;q}'",
            "sed -f script",
            "awk 'NR == 3 { exit }'",
            "bash -c 'head -1'",
            "sort < other",
            "(sleep 0.2; head -1)",
            "while read x; do break; done",
            "read x",
            "echo a",
        ] {
            assert!(may_leave_early(label), "{label}");
        }
        for label in ["cat", "grep -v x", "sed s/a/b/", "awk '{ print $1 }'", "sort -k2", "wc -l"] {
            assert!(!may_leave_early(label), "{label}");
        }
        assert!(
            has_read_all("LC_ALL=C sort -n") && !has_read_all("cat") && !has_read_all("(sort)")
        );
        assert!(is_one_command("seq 9 2>/dev/null") && !is_one_command("{ seq 9; echo $?; }"));
    }

    #[test]
    fn a_rate_is_read_where_the_options_say_it() {
        let mib = |number: u64| Some(number << 20);
        assert_eq!([rate_of("pv -qL 20m"), rate_of("pv -L2M -q")], [mib(20), mib(2)]);
        assert_eq!(
            [rate_of("pv --rate-limit=3m"), rate_of("curl --limit-rate 1M u")],
            [mib(3), mib(1)]
        );
        assert_eq!(rate_of("weir buffer --rate 0.5M"), Some(1 << 19));
        assert_eq!([rate_of("mbuffer -r 1G"), rate_of("pv -L 500")], [mib(1024), Some(500)]);
        let none = ["pv -L $rate", "pv -q", "pv -L 0", "cat -L 5", "curl u", "pv -L"];
        assert_eq!(none.map(rate_of), [None; 6]);
    }

    #[test]
    fn weir_s_own_buffer_is_a_relay_unless_it_has_a_pace() {
        assert!(is_relay("weir buffer") && is_relay("'/opt/weir' buffer -q"));
        assert!(is_relay("/usr/bin/weir buffer --memory 1G 2>log"));
        assert!(is_buffer("weir buffer --rate 1M") && !is_relay("weir buffer --rate=1M"));
        assert!(!is_buffer("weir run x") && !is_buffer("mbuffer -q") && !is_buffer(""));
    }
}
