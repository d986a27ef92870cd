//! The paths of programs that cases start.

use crate::engine::case::CaseError;
use std::path::{Path, PathBuf};
use weir_measure::programs::find_program;

/// Returns the `weir` that `WEIR_BIN` names, or the one beside this program, or the one that is
/// installed.
pub fn weir() -> Result<PathBuf, CaseError> {
    if let Some(path) = std::env::var_os("WEIR_BIN") {
        return find_program(Path::new(&path)).ok_or_else(|| {
            CaseError::left_out(format!("WEIR_BIN: {} is not a program", path.display()))
        });
    }
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("weir"));
    beside.filter(|path| path.is_file()).map_or_else(|| find("weir"), Ok)
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
