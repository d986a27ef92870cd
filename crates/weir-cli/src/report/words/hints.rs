//! What to do about a program, by its name and options.

use weir_doctor::advice::AdviceKind;
use weir_doctor::programs::{Parallel, parallel_form, split};

/// What to do instead of starting these programs (the most frequent first) again and again.
pub(super) fn instead_of_processes<'a>(
    label: &str,
    programs: impl Iterator<Item = &'a str>,
) -> String {
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
    format!("use {text}")
}

/// What to use in the place of a (de)compressor that uses one CPU.
pub(super) fn parallel(label: &str) -> &'static str {
    match parallel_form(label) {
        Some(Parallel::Pigz) => "pigz in its place (same format)",
        Some(Parallel::Rapidgzip) => "rapidgzip -d -c, or pigz -dc, in its place (same format)",
        Some(Parallel::Lbzip2) => "lbzip2 in its place (same format)",
        Some(Parallel::Xz) => "xz -T0",
        Some(Parallel::Unxz) => "xz -T0 -dc (helps where the file was compressed in blocks)",
        Some(Parallel::Zstd) => "zstd -T0",
        None => "one that uses several CPUs",
    }
}

/// How the program is told to make larger transfers.
pub(super) fn buffering(label: &str, kind: AdviceKind) -> &'static str {
    let (program, arguments) = split(label).unwrap_or(("", Vec::new()));
    let has = |flag: &str| arguments.contains(&flag);
    match program {
        "grep" | "egrep" | "fgrep" if has("--line-buffered") => "leave out --line-buffered",
        "sed" if has("-u") || has("--unbuffered") => "leave out -u",
        "stdbuf" => "leave out stdbuf",
        "dd" if kind == AdviceKind::LargerWrites => "give it a larger block size (bs=64K)",
        "dd" => "give it a larger block size (bs=64K iflag=fullblock)",
        "tail" | "head" | "cut" | "tr" => "what feeds it or calls it makes it so",
        "while" | "until" | "for" if kind == AdviceKind::LargerReads => {
            "the shell's read takes a byte a call from a pipe; awk reads in blocks"
        }
        "while" | "until" | "for" => "redirect the whole loop once, or use awk",
        p if p.starts_with("python") && has("-u") => "leave out -u",
        p if p.starts_with("python") => "let it buffer (no flush=True, no PYTHONUNBUFFERED)",
        "awk" | "gawk" | "mawk" => "leave out fflush() and -W interactive",
        "perl" => "leave $| unset",
        _ if kind == AdviceKind::LargerWrites => {
            "let it buffer its output (stdbuf -o64K, or its own option)"
        }
        _ => "let it read in larger blocks",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_flag_that_was_given() {
        let hint = |label| buffering(label, AdviceKind::LargerWrites);
        assert_eq!(hint("python3 -u gen.py"), "leave out -u");
        assert_eq!(hint("grep --line-buffered x"), "leave out --line-buffered");
        assert!(hint("mytool").contains("stdbuf"));
    }
}
