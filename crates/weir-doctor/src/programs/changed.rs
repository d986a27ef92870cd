//! Commands changed as advice says. `None` where a change does not apply, or where what was typed
//! is not surely understood.

use super::table::{self, Fact, Threads};
use super::{Parallel, makes_a_file, parallel_form};
use crate::command::Command;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Returns a command of bcftools or samtools that passes on its records uncompressed, if `reader`
/// reads them at once.
pub fn uncompressed(writer: &str, reader: &str) -> Option<String> {
    let (from, to) = (Command::read(writer)?, Command::read(reader)?);
    // Redirected errors leave the output in the pipe. A quoted '>' is in an expression.
    let errors = |word: &str| word.starts_with("2>") || word.starts_with(['\'', '"']);
    let to_file = from.arguments().any(|word| word.contains('>') && !errors(word));
    if to_file || from.option(&["-o", "--output", "--output-file"]).is_some() {
        return None;
    }
    match (from.program(), from.word(1)?, to.program()) {
        ("bcftools", sub, "bcftools") if packs("bcftools", sub) => {
            let (at, count) = option_with_value(&from, "-O", "--output-type");
            let unpacked = |word: &str| word.ends_with('u');
            let last = count.checked_sub(1).and_then(|rest| from.word(at + rest));
            if last.is_some_and(unpacked) {
                return None;
            }
            Some(match count {
                0 => from.behind(1, "-Ou"),
                _ => from.with(at, count, "-Ou"),
            })
        }
        ("samtools", sub, "samtools" | "bcftools") if packs("samtools", sub) => {
            let chosen = from.option(&["-O", "--output-fmt", "-l", "-1", "-C"]).is_some();
            let plain = from.has_letter('u') || from.has_letter('c');
            (!chosen && !plain && from.option(&["--uncompressed"]).is_none())
                .then(|| from.behind(1, "-u"))
        }
        _ => None,
    }
}

/// Whether a command of bcftools or samtools writes its records as text.
pub fn writes_text(label: &str) -> bool {
    let Some(command) = Command::read(label) else { return false };
    match (command.program(), command.word(1)) {
        ("bcftools", _) => {
            let (at, count) = option_with_value(&command, "-O", "--output-type");
            let kind = count.checked_sub(1).and_then(|rest| command.word(at + rest));
            kind.is_none_or(|kind| kind.ends_with('v'))
        }
        ("samtools", Some("view")) => !command.has_letter('b'),
        _ => false,
    }
}

/// Whether a command of bcftools or samtools packs records, and has an option for not doing it.
fn packs(program: &str, sub: &str) -> bool {
    let packs = |fact: &Fact| matches!(fact, Fact::Packs(commands) if commands.contains(&sub));
    table::facts(program).iter().any(packs)
}

/// Where an option stands, and how many words it takes: 2 if its value is a word of its own.
fn option_with_value(command: &Command, short: &str, long: &str) -> (usize, usize) {
    let Some(at) = command.option(&[short, long]) else { return (1, 0) };
    let alone = command.word(at).is_some_and(|word| word == short || word == long);
    (at, if alone { 2 } else { 1 })
}

/// Returns the command with `threads` threads, if its program has an option for them and was given
/// fewer.
pub fn with_threads(label: &str, threads: u32) -> Option<String> {
    let command = Command::read(label)?;
    let option = |fact: &Fact| match fact {
        Fact::Threads(option) => Some(*option),
        _ => None,
    };
    let Threads { short, long, beside, of, usual, not_with } =
        table::find(command.program(), option)?;
    let is_its = of.is_empty() || command.word(1).is_some_and(|sub| of.contains(&sub));
    if !is_its || not_with.is_some_and(|letter| command.has_letter(letter)) {
        return None;
    }
    let (at, count) = option_with_value(&command, short, long);
    let value = count.checked_sub(1).and_then(|rest| command.word(at + rest));
    let digits = value.map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()));
    let had: u32 = match digits {
        Some(digits) => digits.parse().ok()?,
        None => usual?,
    };
    let wanted = threads.saturating_sub(u32::from(beside));
    if threads < 2 || had >= wanted || had == 0 && count > 0 && !beside {
        return None;
    }
    let option = format!("{short} {wanted}").replace("-T ", "-T");
    Some(match count {
        0 => command.behind(usize::from(!of.is_empty()), &option),
        _ => command.with(at, count, &option),
    })
}

/// Returns the file that a plain `cat FILE` reads.
pub fn cat_of_one_file(label: &str) -> Option<&str> {
    let command = Command::read(label)?;
    let file = command.word(1)?;
    let one = command.word(2).is_none() && !file.starts_with('-') && !command.redirects('>');
    // A pattern of the shell may stand for several files.
    let pattern = file.contains(['*', '?', '[', '{', '$', '<']);
    (command.program() == "cat" && one && !pattern).then_some(file)
}

/// Returns the reader of `cat FILE` with that file as its standard input.
pub fn without_cat(cat: &str, reader: &str) -> Option<String> {
    let file = cat_of_one_file(cat)?;
    let command = Command::read(reader)?;
    (!command.redirects('<')).then(|| format!("{} < {file}", reader.trim_end()))
}

/// Returns the command with a (de)compressor that uses several CPUs, of those that `has` knows.
pub fn parallel(label: &str, has: &dyn Fn(&str) -> bool) -> Option<String> {
    let command = Command::read(label)?;
    let options = match command.program() {
        "zcat" | "bzcat" => " -dc",
        "gunzip" | "bunzip2" => " -d",
        _ => "",
    };
    let program = |name: &str| command.with(0, 1, &format!("{name}{options}"));
    match parallel_form(label)? {
        Parallel::Pigz => has("pigz").then(|| program("pigz")),
        Parallel::Rapidgzip if has("rapidgzip") && !makes_a_file(label) => {
            // Its options are few: only a plain `-d` or `-c` is the same.
            let is_option = |word: &&str| word.starts_with('-');
            let plain: Vec<&str> = command.arguments().take_while(is_option).collect();
            let known = plain.iter().all(|word| matches!(*word, "-d" | "-c" | "-dc" | "-cd"));
            // One behind the file would stay there.
            let all = command.arguments().filter(is_option).count() == plain.len();
            let rest = command.with(0, 1 + plain.len(), "rapidgzip -d -c");
            (known && all).then_some(rest)
        }
        Parallel::Rapidgzip => None,
        Parallel::Lbzip2 => has("lbzip2").then(|| program("lbzip2")),
        Parallel::Xz => Some(command.behind(0, "-T0")),
        Parallel::Unxz => match command.program() {
            "xz" => Some(command.behind(0, "-T0")),
            "unxz" => Some(command.with(0, 1, "xz -T0 -d")),
            _ => Some(command.with(0, 1, "xz -T0 -dc")),
        },
        Parallel::Zstd => Some(command.behind(0, "-T0")),
    }
}

/// The option of ssh for a cipher that CPUs with AES instructions are fastest at.
pub const AES_CIPHER: &str = "-c aes128-gcm@openssh.com";

/// Returns the command without the option that makes it write in small pieces; `reads`: that makes it
/// read so.
pub fn with_buffer(label: &str, reads: bool) -> Option<String> {
    let command = Command::read(label)?;
    let flags = small_by(command.program(), reads)?;
    // Behind the first operand an option may be an argument of a script.
    let options = command.arguments().take_while(|word| word.starts_with('-'));
    let at = 1 + options.into_iter().position(|word| flags.contains(&word))?;
    Some(command.with(at - 1, 2, command.word(at - 1)?))
}

/// Returns the command with the option that makes it pass on each line at once.
pub fn line_buffered(label: &str) -> Option<String> {
    let command = Command::read(label)?;
    let option = |fact: &Fact| match fact {
        Fact::EachLine(option, letters, names) => Some((*option, *letters, *names)),
        _ => None,
    };
    // Counts and names come at the end whatever the option.
    let (option, letters, names) = table::find(command.program(), option)?;
    let ends = letters.chars().any(|letter| command.has_letter(letter));
    if ends || command.option(names).is_some() {
        return None;
    }
    Some(match option {
        "" => command.with(0, 0, "stdbuf -oL "),
        option => command.behind(0, option),
    })
}

/// Returns the options that make a program write in small pieces; `reads`: that make it read so.
pub(super) fn small_by(program: &str, reads: bool) -> Option<&'static [&'static str]> {
    table::find(program, |fact| match fact {
        Fact::SmallBy(flags) if !reads => Some(*flags),
        Fact::SmallReadsBy(flags) => Some(*flags),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(String::from(text))
    }

    #[test]
    fn what_is_read_at_once_is_not_compressed() {
        let found = |writer: &str| uncompressed(writer, "bcftools stats");
        assert_eq!(found("bcftools view -Ob a.bcf"), some("bcftools view -Ou a.bcf"));
        assert_eq!(found("bcftools view -i 'QUAL>5' a"), some("bcftools view -Ou -i 'QUAL>5' a"));
        assert_eq!(found("bcftools norm -O z -d all"), some("bcftools norm -Ou -d all"));
        assert_eq!(found("bcftools norm -O u"), None);
        assert_eq!(found("bcftools view -Ou a"), None);
        assert_eq!(found("bcftools view -o out.bcf a"), None);
        assert_eq!(found("bcftools call -m 2>log"), some("bcftools call -Ou -m 2>log"));
        for sub in ["query -f x", "reheader -s names"] {
            assert_eq!(found(&format!("bcftools {sub}")), None, "{sub}: it has no -O");
        }
        assert_eq!(uncompressed("bcftools view -Oz a", "wc -c"), None, "others read text");
        let sam = |writer: &str| uncompressed(writer, "samtools view -c -");
        assert_eq!(sam("samtools sort -n -"), some("samtools sort -u -n -"));
        assert_eq!(sam("samtools view -bu a.bam"), None);
        assert_eq!(sam("samtools sort -l 1 -"), None);
        assert_eq!(sam("samtools fastq a.bam"), None);
    }

    #[test]
    fn who_writes_records_as_text_is_known() {
        for label in ["bcftools view a.bcf", "bcftools norm -Ov", "samtools view -h a.bam"] {
            assert!(writes_text(label), "{label}");
        }
        for label in
            ["bcftools view -Ob a", "bcftools view -O z a", "samtools view -b a", "samtools sort a"]
        {
            assert!(!writes_text(label), "{label}");
        }
    }

    #[test]
    fn threads_are_raised_and_never_lowered() {
        assert_eq!(with_threads("samtools sort -", 4), some("samtools sort -@ 3 -"));
        assert_eq!(with_threads("samtools sort -@1 -", 4), some("samtools sort -@ 3 -"));
        assert_eq!(with_threads("samtools sort -@ 8 -", 4), None);
        assert_eq!(with_threads("minimap2 -a x y", 2), None, "it has three");
        assert_eq!(with_threads("minimap2 -a -t 1 x y", 2), some("minimap2 -a -t 2 x y"));
        assert_eq!(with_threads("bgzip", 2), some("bgzip -@ 2"));
        assert_eq!(with_threads("xz -1 -T1", 2), some("xz -1 -T2"));
        assert_eq!(with_threads("xz -T0", 2), None, "0 is as many as there are");
        assert_eq!(with_threads("samtools sort -@ $N", 4), None);
        assert_eq!(with_threads("grep x", 4), None);
        assert_eq!(with_threads("bgzip", 1), None);
        assert_eq!(with_threads("pigz -p1", 4), some("pigz -p 4"));
        assert_eq!(with_threads("pigz", 4), None, "it has one for each CPU");
        assert_eq!(with_threads("pigz -p1 -dc a.gz", 4), None, "it unpacks on one");
    }

    #[test]
    fn an_option_against_buffering_is_left_out() {
        let writes = |label| with_buffer(label, false);
        assert_eq!(writes("python3 -u emit.py"), some("python3 emit.py"));
        assert_eq!(writes("grep --line-buffered 'a  b'"), some("grep 'a  b'"));
        assert_eq!(writes("X='a  b' grep --line-buffered x"), some("X='a  b' grep x"));
        assert_eq!(writes("python3 emit.py -u"), None, "that is the script's");
        assert_eq!(writes("while read x; do echo; done"), None);
        assert_eq!(with_buffer("python3 -u emit.py", true), None, "it reads as before");
        assert_eq!(with_buffer("sed -u p", true), some("sed p"));
    }

    #[test]
    fn a_line_is_passed_on_at_once_where_the_program_can() {
        assert_eq!(line_buffered("grep -v x"), some("grep --line-buffered -v x"));
        assert_eq!(line_buffered("LC_ALL=C tr a b"), some("LC_ALL=C stdbuf -oL tr a b"));
        assert_eq!(line_buffered("sed -E s/a/b/"), some("sed -u -E s/a/b/"));
        for label in ["grep -c x", "grep --line-buffered x", "sed -u p", "sort", "a | b", "jq -s ."]
        {
            assert_eq!(line_buffered(label), None, "{label}");
        }
    }

    #[test]
    fn a_cat_of_one_file_is_left_out() {
        assert_eq!(without_cat("cat a.log", "grep x"), some("grep x < a.log"));
        for cat in ["cat a b", "cat -n a", "cat", "cat *.log", "cat $f", "cat <a", "tac a"] {
            assert_eq!(without_cat(cat, "grep x"), None, "{cat}");
        }
        assert_eq!(without_cat("cat a", "sort < b"), None);
        assert_eq!(without_cat("cat a", "(wc)"), None);
    }

    #[test]
    fn a_parallel_compressor_is_one_that_is_there() {
        let has = |name: &str| matches!(name, "pigz" | "lbzip2");
        assert_eq!(parallel("/bin/gzip -n", &has), some("pigz -n"));
        assert_eq!(parallel("zcat a.gz", &has), None);
        assert_eq!(parallel("bzip2 -9", &has), some("lbzip2 -9"));
        assert_eq!(parallel("xz -1", &has), some("xz -T0 -1"));
        assert_eq!(parallel("zstd -19", &has), some("zstd -T0 -19"));
        assert_eq!(parallel("gzip -n", &|_| false), None);
        let rapid = |name: &str| name == "rapidgzip";
        assert_eq!(parallel("gzip -dc a.gz", &rapid), some("rapidgzip -d -c a.gz"));
        assert_eq!(parallel("gzip -d -S .x a.x", &rapid), None);
        // It was "rapidgzip -d -c -dc", which reads no file.
        assert_eq!(parallel("gzip a.gz -dc", &rapid), None);
    }

    /// `bunzip2 a.bz2` makes a file, and the command that was to take its place wrote to standard
    /// output.
    #[test]
    fn what_makes_a_file_still_makes_one() {
        let all = |_: &str| true;
        assert_eq!(parallel("bunzip2 a.bz2", &all), some("lbzip2 -d a.bz2"));
        assert_eq!(parallel("bunzip2 -c a.bz2", &all), some("lbzip2 -d -c a.bz2"));
        assert_eq!(parallel("bzcat a.bz2", &all), some("lbzip2 -dc a.bz2"));
        assert_eq!(parallel("unxz a.xz", &all), some("xz -T0 -d a.xz"));
        assert_eq!(parallel("xzcat a.xz", &all), some("xz -T0 -dc a.xz"));
        assert_eq!(parallel("gunzip a.gz", &all), None, "rapidgzip keeps the packed one");
        assert_eq!(parallel("gzip -d 2>log a.gz", &all), None);
        assert_eq!(parallel("gzip -d < a.gz", &all), some("rapidgzip -d -c < a.gz"));
        assert_eq!(parallel("zcat a.gz", &all), some("rapidgzip -d -c a.gz"));
    }
}
