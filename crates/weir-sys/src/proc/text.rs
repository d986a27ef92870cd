//! Lines of names and values, and the words of a process.

/// Returns the text after `name` and a colon.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    Some(pairs.find(|(known, _)| known.trim() == name)?.1.trim())
}

/// Returns the number after `name` and a blank.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(known, _)| *known == name)?.1.trim().parse().ok()
}
