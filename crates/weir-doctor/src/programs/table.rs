//! What weir knows of common programs: one row for each, or for several that are alike.

use StatusMeaning::{Different, Empty, False, NoMatch, TimeOver};

/// The meaning of a status above 0 that is not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeaning {
    /// Nothing matched.
    NoMatch,
    /// There were differences.
    Different,
    /// The condition is false.
    False,
    /// The result is empty or 0.
    Empty,
    /// The time limit was reached.
    TimeOver,
}

/// What is known of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Its speed depends on the locale.
    Locale,
    /// It does so with one of these letters as an option, or with one of these texts in a word.
    LocaleWith(&'static str, &'static [&'static str]),
    /// It does so, unless it compares numbers.
    LocaleOfKeys,
    /// It works on a file from beginning to end; this does in one pass what many of them do.
    OnePass(&'static str),
    /// It waits for the disk after each piece of work, unless it is told to do this: with this text in
    /// a word, or, where that is empty, whatever it is told.
    FlushOnce(&'static str, &'static str),
    /// It begins to write only when it has read everything, and takes time for that.
    Gathers,
    /// It ends with its input, and writes little before.
    EndsWithInput,
    /// It may leave its input before the end, whatever its options.
    Leaves,
    /// It may do so with one of these letters as an option, or with one of these texts in a word.
    LeavesWith(&'static str, &'static [&'static str]),
    /// It is a shell with the grammar of POSIX.
    PosixShell,
    /// It is another shell.
    Shell,
    /// It is a build tool: it starts commands that do not belong together.
    Builds,
    /// What it starts is no part of its own work.
    RunsOthers,
    /// It stops what it runs at each call of it, or runs it itself: the time is that of this.
    Traces,
    /// It starts others and waits for them.
    Organizes,
    /// Alone, it is run as a script: what it starts is found from outside.
    RunAsScript,
    /// It becomes the command behind it, or is a word of the shell that runs that: what it runs has no
    /// other parent than the shell.
    BecomesNext,
    /// It runs several jobs at once, if it is told to; the flag says whether these are a list.
    RunsJobs(bool),
    /// It runs one job at a time unless it is told otherwise.
    OneJob,
    /// A pool in its file may hold jobs back.
    Pools,
    /// It packs a file or a stream, or unpacks it with `-d`. What it packs a file to ends in this.
    Packer(&'static str),
    /// It unpacks one.
    Unpacker,
    /// It unpacks an archive that it extracts or lists, by a program for that.
    Archiver,
    /// It takes tens of milliseconds to start.
    StartsSlowly,
    /// It spends its CPU time on encryption.
    Encrypts,
    /// It always keeps to a rate.
    KeepsPace,
    /// It keeps to a rate with one of these letters as an option, or with this long option.
    PaceWith(&'static str, &'static str),
    /// The value of the first of these letters, or of the long option, is that rate.
    RateIs(&'static str, &'static str),
    /// Its status is an answer, not a failure.
    Answers(i32, StatusMeaning),
    /// Any status of it may be the answer to a question about the host.
    AsksHost,
    /// It has an option for threads.
    Threads(Threads),
    /// It writes in small pieces by one of these options.
    SmallBy(&'static [&'static str]),
    /// It also reads in small pieces by one of these options.
    SmallReadsBy(&'static [&'static str]),
    /// What lets it transfer more at once, where no option keeps it from that.
    LargerBy(&'static str),
    /// What lets it write more at once: how it reads is decided elsewhere.
    LargerWritesBy(&'static str),
    /// What in its program text makes it write in small pieces: by nothing else does that way help.
    SmallByText(&'static [&'static str]),
    /// A variable that, in its environment, makes it write in small pieces whatever its options.
    SmallByVariable(&'static str),
    /// The option that passes on each line at once, unless it has one of these letters or options.
    /// Without such an option, `stdbuf` does it.
    EachLine(&'static str, &'static str, &'static [&'static str]),
    /// What makes it write at once, where no option of the C library does.
    Flushes(&'static str),
    /// Its run-time system gathers output itself.
    OwnBuffer,
    /// The commands of it that pack records, unless they are given the option `-O` or `-u`.
    Packs(&'static [&'static str]),
    /// What a shell does in its place without a process; the flag says whether each shell can.
    InShell(&'static str, bool),
    /// awk can do what it does to a line or a word.
    ByAwk,
    /// One of it with many arguments does what many of it with one argument each do.
    TakesMany,
    /// What its start takes.
    Loads(Load),
    /// What does in one process what many of its commands do, by the name of the command; the flag
    /// says whether all the work of each is the same again, and not only its start.
    ForMany(&'static [(&'static str, &'static str, bool)]),
    /// What does in one process what many of it do, whatever they do.
    InOne(&'static str),
}

/// What the start of a program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// This CPU time for each byte that it reads of its modules.
    PerByteNs(u64),
    /// This CPU time at least.
    AtLeastNs(u64),
}

/// An option for threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    pub short: &'static str,
    pub long: &'static str,
    /// Whether it counts threads beside the first.
    pub beside: bool,
    /// The subcommands that have it; all, where there are none.
    pub of: &'static [&'static str],
    /// How many it has without the option; `None`: one for each CPU.
    pub usual: Option<u32>,
    /// The letter of an option with which it has one thread, whatever it is told.
    pub not_with: Option<char>,
}

const THREADS: Threads =
    Threads { short: "", long: "", beside: false, of: &[], usual: Some(1), not_with: None };

const BY_AWK: &str = "one awk that does all in one pass";
const BY_GREP: &str = "all patterns in one pass (grep -f PATTERNS, or awk with a table of them)";
const UNPACKED: &str = "unpack the file once";
const FED: &str = "change the program that feeds it or starts it";
const FLUSH: Fact = Fact::Flushes("fflush() in its program");
const NO_FLUSH: &str = "leave out fflush() and -W interactive";
const AWK_FLUSHES: Fact = Fact::SmallByText(&["fflush", "-W"]);
/// Other patterns take as long by bytes.
const GREP_LOCALE: Fact = Fact::LocaleWith("i", &["--ignore-case", "[[:", "\\w"]);
const GREP_LEAVES: Fact =
    Fact::LeavesWith("qmlL", &["--quiet", "--silent", "--max-count", "--files-with"]);
const AWK_LEAVES: Fact = Fact::LeavesWith("f", &["exit", "getline"]);
const GREP_LINES: Fact = Fact::EachLine(
    "--line-buffered",
    "cqlL",
    &["--line-buffered", "--count", "--quiet", "--files-with-matches"],
);

use Fact::{
    Answers, Archiver, AsksHost, BecomesNext, Builds, ByAwk, EachLine, Encrypts, EndsWithInput,
    FlushOnce, Flushes, ForMany, Gathers, InOne, InShell, KeepsPace, LargerBy, LargerWritesBy,
    Leaves, LeavesWith, Loads, Locale, LocaleOfKeys, OneJob, OnePass, Organizes, OwnBuffer,
    PaceWith, Packer, Packs, Pools, PosixShell, RateIs, RunAsScript, RunsJobs, RunsOthers, Shell,
    SmallBy, SmallByText, SmallByVariable, SmallReadsBy, StartsSlowly, TakesMany, Traces, Unpacker,
};

/// The rows. Names of one row are divided by blanks.
#[rustfmt::skip]
const PROGRAMS: &[(&str, &[Fact])] = &[
    // Text.
    ("grep egrep fgrep", &[
        ByAwk, GREP_LOCALE, OnePass(BY_GREP), GREP_LEAVES, Answers(1, NoMatch), GREP_LINES,
        SmallBy(&["--line-buffered"]), EndsWithInput,
    ]),
    ("rg", &[OnePass(BY_GREP), GREP_LEAVES, Answers(1, NoMatch), EndsWithInput]),
    ("zgrep ag", &[GREP_LEAVES, Answers(1, NoMatch)]),
    ("zegrep zfgrep bzgrep xzgrep zstdgrep ack ugrep pgrep", &[Answers(1, NoMatch)]),
    ("awk", &[ByAwk, Locale, OnePass(BY_AWK), AWK_LEAVES, LargerBy(NO_FLUSH), AWK_FLUSHES, FLUSH]),
    ("gawk", &[
        ByAwk, Locale, OnePass(BY_AWK), AWK_LEAVES, LargerBy(NO_FLUSH), AWK_FLUSHES, FLUSH,
        StartsSlowly,
    ]),
    ("mawk", &[ByAwk, OnePass(BY_AWK), AWK_LEAVES, LargerBy(NO_FLUSH), AWK_FLUSHES, FLUSH]),
    ("nawk", &[ByAwk, AWK_LEAVES]),
    ("sed", &[
        ByAwk, Locale, OnePass(BY_AWK), LeavesWith("fi", &["q", "Q"]),
        EachLine("-u", "", &["-u", "--unbuffered", "-n"]), SmallReadsBy(&["-u", "--unbuffered"]),
    ]),
    ("jq", &[
        OnePass("one jq for all that is sought"), LeavesWith("n", &["limit", "first", "halt"]),
        EachLine("--unbuffered", "s", &["--unbuffered", "--slurp"]), StartsSlowly,
    ]),
    ("sort", &[LocaleOfKeys, Gathers]),
    ("gsort tac shuf sponge tsort column", &[Gathers]),
    ("join comm", &[Locale]),
    ("uniq", &[ByAwk, Locale, EachLine("", "", &[])]),
    ("tr", &[ByAwk, EachLine("", "", &[]), LargerBy(FED)]),
    ("cut", &[ByAwk, Locale, OnePass(BY_AWK), EachLine("", "", &[]), LargerBy(FED)]),
    ("wc", &[ByAwk, Locale, OnePass(BY_AWK), EndsWithInput]),
    ("head", &[ByAwk, OnePass(BY_AWK), Leaves, LargerBy(FED)]),
    ("tail", &[ByAwk, LargerBy(FED), EndsWithInput]),
    ("cat", &[ByAwk, TakesMany, OnePass(BY_AWK), InShell("$(<file) in place of cat", false)]),
    ("cmp", &[Answers(1, Different), EndsWithInput]),
    ("sum cksum b2sum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum", &[
        EndsWithInput, TakesMany,
    ]),
    ("rm rmdir mkdir touch chmod chown chgrp stat file du ls", &[TakesMany]),
    ("diff zdiff zcmp xzdiff bzdiff diff3 sdiff", &[Answers(1, Different)]),
    ("less more fzf", &[Leaves]),
    // Compressors; which other one does the same on several CPUs is in `parallel_form`.
    ("gzip", &[OnePass(UNPACKED), Packer(".gz"), TakesMany]),
    ("zstd", &[OnePass(UNPACKED), Packer(".zst"), TakesMany]),
    ("zcat gunzip bzcat bunzip2 xzcat unxz zstdcat unzstd unpigz lz4cat unlz4", &[
        Unpacker, TakesMany,
    ]),
    ("bzip2 pbzip2 lbzip2", &[Packer(".bz2"), TakesMany]),
    ("lz4", &[Packer(".lz4"), TakesMany]),
    ("lzma", &[Packer(".lzma"), TakesMany]),
    ("xz", &[
        OnePass(UNPACKED), Packer(".xz"), TakesMany,
        Fact::Threads(Threads { short: "-T", long: "--threads", ..THREADS }),
    ]),
    // It unpacks on one CPU.
    ("pigz", &[Packer(".gz"), TakesMany, Fact::Threads(Threads {
        short: "-p", long: "--processes", usual: None, not_with: Some('d'), ..THREADS
    })]),
    ("bgzip", &[Fact::Threads(Threads { short: "-@", long: "--threads", ..THREADS })]),
    ("tar bsdtar", &[Archiver]),
    // Genomes.
    ("minimap2", &[Fact::Threads(Threads {
        short: "-t", long: "--threads", usual: Some(3), ..THREADS
    })]),
    ("bwa", &[Fact::Threads(Threads { short: "-t", long: "-t", of: &["mem"], ..THREADS })]),
    ("bowtie2", &[Fact::Threads(Threads { short: "-p", long: "--threads", ..THREADS })]),
    ("samtools", &[
        Fact::Threads(Threads {
            short: "-@", long: "--threads", beside: true, usual: Some(0),
            of: &["view", "sort", "fastq", "fasta", "merge", "markdup", "fixmate", "collate"],
            ..THREADS
        }),
        Packs(&["view", "sort", "fixmate", "markdup", "collate", "merge"]),
    ]),
    ("bcftools", &[Packs(&[
        "view", "filter", "norm", "annotate", "call", "concat", "merge", "sort", "mpileup",
    ])]),
    // Copies, and over a network.
    ("dd", &[Leaves, FlushOnce("conv=fsync in place of oflag=sync or oflag=dsync", "sync")]),
    ("sqlite3", &[FlushOnce("one transaction for many rows (begin; ... commit;)", "")]),
    ("psql", &[FlushOnce("one transaction for many rows (psql -1)", "")]),
    ("pv", &[PaceWith("L", "--rate-limit"), RateIs("L", "--rate-limit")]),
    ("mbuffer", &[PaceWith("rR", ""), RateIs("r", "")]),
    ("cstream", &[PaceWith("t", ""), RateIs("t", "")]),
    ("curl wget", &[PaceWith("", "--limit-rate"), RateIs("", "--limit-rate")]),
    ("rsync", &[PaceWith("", "--bwlimit")]),
    ("scp", &[PaceWith("l", ""), Encrypts]),
    ("throttle trickle", &[KeepsPace]),
    ("ssh sftp sshfs", &[Encrypts]),
    // Shells, and what they have of their own.
    ("sh bash dash ash ksh mksh zsh", &[PosixShell]),
    ("busybox fish", &[Shell]),
    ("basename", &[ByAwk, InShell("${i##*/} in place of basename", true)]),
    ("dirname", &[ByAwk, InShell("${i%/*} in place of dirname", true)]),
    ("expr", &[ByAwk, InShell("$((...)) in place of expr or bc", true), Answers(1, Empty)]),
    ("bc", &[ByAwk, InShell("$((...)) in place of expr or bc", true)]),
    ("seq", &[ByAwk, InShell("{1..9} in place of seq", false)]),
    ("date", &[InShell("printf '%(%F %T)T' in place of date", false)]),
    ("test", &[ByAwk, Leaves, Answers(1, False)]),
    ("[ [[", &[ByAwk, Answers(1, False)]),
    ("true false echo printf :", &[ByAwk, Leaves]),
    ("read exit sleep expect", &[Leaves]),
    ("builtin command exec", &[BecomesNext]),
    // What is asked about the host, or whether a file is a link.
    ("which readlink kill pkill killall pidof getent id mountpoint", &[AsksHost]),
    ("pkg-config tty tput systemctl dpkg rpm", &[AsksHost]),
    // What starts others.
    ("make gmake", &[Builds, RunAsScript, RunsJobs(false), OneJob]),
    ("ninja", &[Builds, RunAsScript, RunsJobs(false), Pools]),
    ("samu", &[Builds, RunsJobs(false), Pools]),
    ("just", &[Builds, RunAsScript]),
    ("cmake", &[Builds]),
    ("xargs parallel", &[Organizes, RunsJobs(true)]),
    ("find", &[Organizes]),
    ("env nice nohup", &[Organizes, BecomesNext]),
    ("stdbuf", &[Organizes, BecomesNext, LargerBy("leave out stdbuf")]),
    ("chrt ionice numactl prlimit setarch setpriv taskset", &[BecomesNext]),
    ("setsid", &[Organizes, RunsOthers, BecomesNext]),
    ("time sudo", &[Organizes, RunsOthers]),
    ("timeout", &[Organizes, RunsOthers, Leaves, Answers(124, TimeOver)]),
    ("unshare chroot", &[RunsOthers, BecomesNext]),
    ("doas su runuser script flock perf", &[RunsOthers]),
    ("strace ltrace gdb valgrind", &[RunsOthers, Traces]),
    ("tini dumb-init docker-init catatonit", &[RunsOthers]),
    ("perl", &[
        RunsOthers, StartsSlowly, LargerWritesBy("leave $| unset"), Flushes("$| = 1 in its program"),
        SmallByText(&["$|", "autoflush"]), OwnBuffer,
    ]),
    ("python", &[
        RunsOthers, StartsSlowly, SmallBy(&["-u"]), SmallByVariable("PYTHONUNBUFFERED"),
        Flushes("python -u"), OwnBuffer,
        LargerWritesBy("let it buffer (no flush=True, no PYTHONUNBUFFERED)"),
        SmallByText(&["flush", "UNBUFFERED", "buffering"]),
        Loads(Load::PerByteNs(45)), InOne("one python for all, which loads its modules once"),
    ]),
    ("ruby", &[
        RunsOthers, StartsSlowly, Flushes("$stdout.sync = true in its program"), OwnBuffer,
    ]),
    ("php", &[RunsOthers, StartsSlowly, Flushes("flush() in its program"), OwnBuffer]),
    ("node", &[
        RunsOthers, StartsSlowly, Loads(Load::AtLeastNs(45_000_000)),
        InOne("one node for all, which loads its modules once"),
    ]),
    ("git", &[Loads(Load::AtLeastNs(1_800_000)), ForMany(&[
        ("hash-object", "one git hash-object --stdin-paths for the list", false),
        ("cat-file", "one git cat-file --batch (or --batch-check) for the list", false),
        ("show", "one git cat-file --batch for the list", false),
        ("log", "one git log --name-only for all paths", true),
        ("check-ignore", "one git check-ignore --stdin for the list", true),
        ("check-attr", "one git check-attr --stdin for the list", true),
        ("config", "one git config --list", true),
        ("rev-parse", "one git rev-parse with all the names", true),
        ("ls-files", "one git ls-files with all the paths", true),
        ("add", "one git add with all the paths", false),
    ])]),
    ("tclsh", &[RunsOthers]),
    ("java javac", &[StartsSlowly]),
];

/// Returns what is known of a program. An interpreter may have its version behind its name.
pub(super) fn facts(program: &str) -> &'static [Fact] {
    let row = |name: &str| {
        let mut rows = PROGRAMS.iter();
        rows.find(|(names, _)| names.split(' ').any(|known| known == name)).map(|(_, facts)| *facts)
    };
    let family = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let version = || row(family).filter(|facts| facts.contains(&StartsSlowly));
    row(program).or_else(version).unwrap_or_default()
}

/// Whether a program is known for this.
pub(crate) fn is(program: &str, fact: Fact) -> bool {
    facts(program).contains(&fact)
}

/// Returns the first that is found among what is known of a program.
pub(super) fn find<T>(program: &str, of: impl Fn(&Fact) -> Option<T>) -> Option<T> {
    facts(program).iter().find_map(of)
}
