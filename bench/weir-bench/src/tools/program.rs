//! The paths of programs that cases start.

use std::path::{Path, PathBuf};
use weir_measure::bench::case::CaseError;
use weir_measure::programs::find_program;

/// Returns this program if it is weir; otherwise the one that `WEIR_BIN` names, or the one that is
/// installed.
pub fn weir() -> Result<PathBuf, CaseError> {
    let own = std::env::current_exe().ok();
    let name = own.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    // An executable that was replaced while it runs is called "weir (deleted)"; the link still
    // leads to it.
    if name.is_some_and(|name| name == "weir" || name.starts_with("weir ")) {
        return Ok("/proc/self/exe".into());
    }
    match std::env::var_os("WEIR_BIN") {
        Some(path) => find_program(Path::new(&path)).ok_or_else(|| {
            CaseError::left_out(format!("WEIR_BIN: {} is not a program", path.display()))
        }),
        None => find("weir"),
    }
}

/// Finds a program in `PATH`.
pub fn find(name: &str) -> Result<PathBuf, CaseError> {
    find_program(Path::new(name))
        .ok_or_else(|| CaseError::left_out(format!("{name} is not installed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_left_out_with_its_name() {
        let trouble = find("no-such-program").expect_err("missing");
        assert!(trouble.left_out && trouble.text == "no-such-program is not installed");
        assert!(find("sh").expect("a shell").is_file());
    }
}
