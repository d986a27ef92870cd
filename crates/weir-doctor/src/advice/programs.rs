//! What is known of well-known programs: which care for the locale, which have a parallel form,
//! and how each is told to buffer.

use super::Kind;
use alloc::string::String;
use alloc::vec::Vec;

/// Whether the program's speed depends on the locale.
pub fn locale_matters(program: &str) -> bool {
    const SENSITIVE: [&str; 13] = [
        "sort", "join", "comm", "uniq", "grep", "egrep", "fgrep", "awk", "gawk", "sed", "tr",
        "cut", "wc",
    ];
    SENSITIVE.contains(&program)
}

/// The program name and arguments of a command as typed: directories and assignments dropped.
pub(crate) fn split(label: &str) -> Option<(&str, Vec<&str>)> {
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

/// The program of a command as typed, without its directory; none for a group of commands.
pub fn program_name(label: &str) -> Option<&str> {
    let (program, _) = split(label)?;
    let plain = program.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-".contains(&b));
    (plain && !program.is_empty()).then_some(program)
}

/// Whether a command is a loop of the shell.
pub fn is_loop(label: &str) -> bool {
    matches!(split(label), Some(("while" | "until" | "for", _)))
}

/// Whether a command starts others again and again by its nature.
pub fn starts_in_a_loop(label: &str) -> bool {
    is_loop(label) || matches!(split(label), Some(("xargs" | "parallel" | "find", _)))
}

/// Whether a program is a shell: what runs it was forked by a script and started nothing else.
pub fn is_shell(program: &str) -> bool {
    matches!(program, "sh" | "bash" | "dash" | "ash" | "busybox" | "ksh" | "mksh" | "zsh" | "fish")
}

/// Whether a one-letter option is given, alone or within a group as in `pv -qL 20m`.
fn has_short(arguments: &[&str], flag: char) -> bool {
    let group = |word: &str| word.starts_with('-') && !word.starts_with("--");
    arguments.iter().any(|word| group(word) && word.contains(flag))
}

/// Whether a program takes tens of milliseconds to start.
pub fn starts_slowly(program: &str) -> bool {
    const SLOW: [&str; 8] = ["python", "perl", "ruby", "node", "java", "php", "jq", "gawk"];
    SLOW.iter().any(|name| program.starts_with(name))
}

/// Whether a command was told a rate to keep to, and may sleep for it.
pub fn keeps_a_pace(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    let long = |name: &str| words.iter().any(|word| word.starts_with(name));
    let short = |flag: char| has_short(&words, flag);
    match program.trim_matches(['\'', '"']) {
        "pv" => short('L') || long("--rate-limit"),
        "mbuffer" => short('r') || short('R'),
        "weir" => is_buffer(label) && long("--rate"),
        "curl" => long("--limit-rate"),
        "wget" => long("--limit-rate"),
        "rsync" => long("--bwlimit"),
        "scp" => short('l'),
        "cstream" => short('t'),
        "throttle" | "trickle" => true,
        _ => false,
    }
}

/// What to do instead of starting these programs (the most frequent first) again and again.
pub fn instead_of_processes<'a>(label: &str, programs: impl Iterator<Item = &'a str>) -> String {
    match split(label) {
        Some(("xargs" | "parallel", _)) => {
            return String::from("give each of them more arguments (xargs -n 100)");
        }
        Some(("find", _)) => return String::from("end -exec with + instead of \\;"),
        _ => {}
    }
    let known = programs.filter_map(|program| {
        Some(match program {
            "basename" => "${i##*/} in place of basename",
            "dirname" => "${i%/*} in place of dirname",
            "expr" | "bc" => "$((...)) in place of expr or bc",
            "cat" => "$(<file) in place of cat",
            "seq" => "{1..9} in place of seq",
            "date" => "printf '%(%F %T)T' in place of date",
            _ => return None,
        })
    });
    let mut ways: Vec<&str> = known.take(2).collect();
    ways.extend(["awk for the whole loop", "or xargs -n 100 to start fewer"]);
    let text = ways.join(", ");
    alloc::format!("use {text}")
}

/// Whether a command is `weir buffer`.
pub fn is_buffer(label: &str) -> bool {
    let Some((program, words)) = split(label) else { return false };
    program.trim_matches(['\'', '"']) == "weir" && words.first() == Some(&"buffer")
}

/// Whether a command only passes on what it reads, at its reader's pace: `weir buffer`, unless it
/// was told a pace of its own.
pub fn is_relay(label: &str) -> bool {
    is_buffer(label) && !label.split_whitespace().any(|word| word.starts_with("--rate"))
}

/// The form of a one-CPU (de)compressor that uses several, if it is known.
pub fn parallel_form(label: &str) -> Option<String> {
    let (program, arguments) = split(label)?;
    let short = |flag: char| has_short(&arguments, flag);
    let long = |name: &str| arguments.iter().any(|a| a.starts_with(name));
    let decompress = short('d') || long("--decompress") || long("--uncompress");
    let threads = short('T') || long("--threads");
    let text = match program {
        "gzip" if !decompress => "pigz in its place (same format)",
        "gzip" | "zcat" | "gunzip" => "rapidgzip -d -c, or pigz -dc, in its place (same format)",
        "bzip2" | "bzcat" | "bunzip2" => "lbzip2 in its place (same format)",
        "xz" if threads => return None,
        "xz" if !decompress => "xz -T0",
        "xz" | "xzcat" | "unxz" => "xz -T0 -dc (helps where the file was compressed in blocks)",
        "zstd" if !decompress && !threads => "zstd -T0",
        _ => return None,
    };
    Some(String::from(text))
}

/// How the program is told to make larger transfers.
pub fn buffering_hint(label: &str, kind: Kind) -> String {
    let (program, arguments) = split(label).unwrap_or(("", Vec::new()));
    let has = |flag: &str| arguments.contains(&flag);
    let hint = match program {
        "grep" | "egrep" | "fgrep" if has("--line-buffered") => "leave out --line-buffered",
        "sed" if has("-u") || has("--unbuffered") => "leave out -u",
        "stdbuf" => "leave out stdbuf",
        "dd" if kind == Kind::LargerWrites => "give it a larger block size (bs=64K)",
        "dd" => "give it a larger block size (bs=64K iflag=fullblock)",
        "tail" | "head" | "cut" | "tr" => "what feeds it or calls it makes it so",
        "while" | "until" | "for" if kind == Kind::LargerReads => {
            "the shell's read takes a byte a call from a pipe; awk reads in blocks"
        }
        "while" | "until" | "for" => "redirect the whole loop once, or use awk",
        p if p.starts_with("python") && has("-u") => "leave out -u",
        p if p.starts_with("python") => "let it buffer (no flush=True, no PYTHONUNBUFFERED)",
        "awk" | "gawk" | "mawk" => "leave out fflush() and -W interactive",
        "perl" => "leave $| unset",
        _ if kind == Kind::LargerWrites => {
            "let it buffer its output (stdbuf -o64K, or its own option)"
        }
        _ => "let it read in larger blocks",
    };
    String::from(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_forms_fit_the_command() {
        assert!(parallel_form("gzip -dc a.gz").expect("known").starts_with("rapidgzip"));
        assert!(parallel_form("LANG=C /bin/gzip -9").expect("known").starts_with("pigz"));
        assert_eq!(parallel_form("xz -T4"), None);
        assert_eq!(parallel_form("zstd -dc a.zst"), None);
        assert_eq!(parallel_form("zstd -T0 -19"), None);
        assert_eq!(parallel_form("zstd -19").expect("known"), "zstd -T0");
        assert_eq!(parallel_form(""), None);
    }

    #[test]
    fn weir_s_own_buffer_is_a_relay_unless_it_has_a_pace() {
        assert!(is_relay("weir buffer") && is_relay("'/opt/weir' buffer -q"));
        assert!(is_relay("/usr/bin/weir buffer --memory 1G 2>log"));
        assert!(is_buffer("weir buffer --rate 1M") && !is_relay("weir buffer --rate=1M"));
        assert!(!is_buffer("weir run x") && !is_buffer("mbuffer -q") && !is_buffer(""));
    }

    #[test]
    fn hints_name_the_flag_that_was_given() {
        let hint = |label| buffering_hint(label, Kind::LargerWrites);
        assert_eq!(hint("python3 -u gen.py"), "leave out -u");
        assert_eq!(hint("grep --line-buffered x"), "leave out --line-buffered");
        assert!(hint("mytool").contains("stdbuf"));
    }
}
