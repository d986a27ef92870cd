//! The arguments of a process, and the script that a shell among them names.

use std::path::PathBuf;
use weir_doctor::programs::is_posix_shell;
use weir_sys::Pid;
use weir_sys::proc::{current_directory, link, regular};

/// Returns the file that a shell with these arguments reads as its script.
pub fn script_of(pid: Pid, words: &[String]) -> Option<PathBuf> {
    let Some(file) = script_word(words) else {
        // `bash < script`: what it reads are its commands, unless it was given others.
        let (shell, rest) = words.split_first()?;
        let options = || rest.iter().take_while(|word| word.starts_with(['-', '+']));
        let has = |flag: char| options().any(|word| !word.starts_with("--") && word.contains(flag));
        let plain = !has('c') && (has('s') || options().count() == rest.len());
        let is_shell = is_posix_shell(shell.rsplit('/').next()?.trim_start_matches('-'));
        let input = link(pid, 0);
        return input.filter(|_| is_shell && plain && regular(pid, 0).is_some());
    };
    // A relative name is that from where the shell is.
    let here = current_directory(pid).unwrap_or_default();
    Some(here.join(file))
}

/// Returns the argument that names the script of a shell, if it has one.
fn script_word(words: &[String]) -> Option<&String> {
    let (shell, mut rest) = words.split_first()?;
    if !is_posix_shell(shell.rsplit('/').next()?.trim_start_matches('-')) {
        return None;
    }
    while let Some((word, after)) = rest.split_first() {
        let takes_one =
            matches!(word.as_str(), "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file");
        match word.strip_prefix(['-', '+']) {
            Some(flags) if flags.contains(['c', 's']) && !flags.starts_with('-') => return None,
            Some("-") => return after.first(),
            Some(_) => rest = if takes_one { after.get(1..)? } else { after },
            None => return Some(word),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_tells_its_script() {
        let of = |text: &str| {
            let words: Vec<String> = text.split(' ').map(String::from).collect();
            script_word(&words).cloned()
        };
        assert_eq!(of("bash report.sh in.csv").as_deref(), Some("report.sh"));
        assert_eq!(of("/bin/sh -e -o pipefail ./x.sh -c").as_deref(), Some("./x.sh"));
        assert_eq!(of("bash -- -odd").as_deref(), Some("-odd"));
        assert_eq!(of("bash -s in.csv"), None, "an argument of what stands on its input");
        assert_eq!(
            (of("bash -ec x"), of("sort x"), of("bash"), of("sh -o")),
            (None, None, None, None)
        );
    }
}
