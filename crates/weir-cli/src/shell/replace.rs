//! Stages that need a shell for their redirections only: a simple command in whose place the shell
//! can put itself (`exec`). Otherwise it forks, waits, and is measured with its program as one.
//!
//! In case of doubt it refuses, as words.rs does. Only plain assignments and redirections may precede
//! the command, and the command must be a plain word without a meaning to a shell. The shell reads
//! what follows: `exec` changes nothing about arguments and redirections.

use super::builtins::{is_plain_variable, is_shell_word};
use super::token::is_name;

/// The same command with `exec` before it, and its name.
pub(super) fn replaced(
    text: &str,
    is_exported_function: &dyn Fn(&str) -> bool,
) -> Option<(String, String)> {
    // Without a redirection, shells do this by themselves. A shell with a process substitution
    // stays to wait for it, and a shell keeps a descriptor that it numbers itself.
    let redirected = text.contains(['<', '>']);
    let stays = ["<(", ">(", "}<", "}>"].iter().any(|sign| text.contains(sign));
    if !redirected || stays {
        return None;
    }
    let start = command_start(text)?;
    let command = plain_word(&text[start..]);
    let refused = command.is_empty()
        || command.starts_with(['-', '%'])
        || command.contains('=')
        || is_shell_word(command)
        || is_exported_function(command);
    // A number right before a redirection is a descriptor, and what follows a plain word may be
    // a part of it that is not plain.
    let rest = &text[start + command.len()..];
    let numbered = command.bytes().all(|b| b.is_ascii_digit());
    let ends = rest.is_empty() || rest.starts_with([' ', '\t', '\n', '<', '>']);
    let ends = ends || rest.starts_with("&>");
    if refused || numbered || !ends {
        return None;
    }
    Some((format!("{}exec {}", &text[..start], &text[start..]), command.to_owned()))
}

/// Where the command word starts: after assignments and redirections.
fn command_start(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += blanks(&text[at..]);
        let rest = &text[at..];
        let word = plain_word(rest);
        let behind = &rest[word.len()..];
        if let Some((name, value)) = word.split_once('=').filter(|(name, _)| is_name(name)) {
            if !is_plain_variable(name, value) || !behind.starts_with([' ', '\t']) {
                return None;
            }
            at += word.len();
        } else if behind.starts_with(['<', '>']) && word.bytes().all(|b| b.is_ascii_digit()) {
            at += word.len() + redirection(behind)?;
        } else {
            return Some(at);
        }
    }
}

/// The length of a redirection to a plain word.
fn redirection(text: &str) -> Option<usize> {
    const SIGNS: [&str; 8] = [">>", ">&", ">|", "<&", "<>", "<<<", ">", "<"];
    let sign = SIGNS.into_iter().find(|sign| text.starts_with(sign))?;
    // A here-document is read further on.
    if text.starts_with("<<") && sign != "<<<" {
        return None;
    }
    let rest = &text[sign.len()..];
    let gap = blanks(rest);
    let target = plain_word(&rest[gap..]);
    let behind = &rest[gap + target.len()..];
    let whole = !target.is_empty() && behind.starts_with([' ', '\t']);
    whole.then_some(sign.len() + gap + target.len())
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

/// The characters at the start of a text that stand for themselves in every shell.
fn plain_word(text: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+:@%-=,".contains(c);
    let end = text.find(|c: char| !plain(c)).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        replaced(text, &|name| name == "exported").map(|(text, _)| text)
    }

    #[test]
    fn exec_is_put_before_a_simple_command_with_redirections() {
        for (text, expected) in [
            ("gzip > f", "exec gzip > f"),
            ("gzip>f", "exec gzip>f"),
            ("gzip -c \"$x\" 2>&1 >> f", "exec gzip -c \"$x\" 2>&1 >> f"),
            ("/bin/cat <<< 'a b'", "exec /bin/cat <<< 'a b'"),
            ("cat <<E\na\nE\n", "exec cat <<E\na\nE\n"),
            ("LC_ALL=C X= sort < f", "LC_ALL=C X= exec sort < f"),
            ("< in 2>/dev/null sort -r", "< in 2>/dev/null exec sort -r"),
            ("2>&1 X=1 <<<a sort", "2>&1 X=1 <<<a exec sort"),
            ("sort&>f", "exec sort&>f"),
            ("x2>f", "exec x2>f"),
        ] {
            assert_eq!(of(text).as_deref(), Some(expected), "{text}");
        }
        let named = replaced("A=b cat < x", &|_| false).map(|(_, name)| name);
        assert_eq!(named.as_deref(), Some("cat"));
    }

    #[test]
    fn what_belongs_to_the_shell_stays_with_it() {
        for text in [
            "gzip",
            "echo a > f",
            "> f",
            "X=1 > f",
            "exported > f",
            "\"gzip\" > f",
            "$gzip > f",
            "gz$ip > f",
            "gzip\\ x > f",
            "PATH=/x gzip > f",
            "X=$(a) gzip > f",
            "X='a' gzip > f",
            "X+=1 gzip > f",
            "x[1]=2 gzip > f",
            "tee >(cat) > f",
            "sort <(cat) > f",
            "cat {fd}> f",
            "<<E cat > f\na\nE\n",
            "> $f cat",
            ">f$x cat",
            "-x > f",
            "%1 > f",
            "22 > f",
            "time sort > f",
            "exec sort > f",
            "[ a ] > f",
            "( a ) > f",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
