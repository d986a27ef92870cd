//! The paths of programs that cases start.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weir_measure::bench::case::CaseError;

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
        Some(path) if is_program(Path::new(&path)) => Ok(path.into()),
        Some(path) => {
            Err(CaseError::left_out(format!("WEIR_BIN: {} is not a program", path.display())))
        }
        None => find("weir"),
    }
}

/// Finds a program in `PATH`.
pub fn find(name: &str) -> Result<PathBuf, CaseError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| is_program(candidate))
        .ok_or_else(|| CaseError::left_out(format!("{name} is not installed")))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_left_out_with_its_name() {
        let trouble = find("no-such-program").expect_err("missing");
        assert!(trouble.left_out && trouble.text == "no-such-program is not installed");
        assert!(is_program(&find("sh").expect("a shell")));
    }
}
