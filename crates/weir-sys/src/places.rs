//! Where files are kept from one run to the next, and what the environment may say about that.

use std::ffi::OsString;
use std::path::PathBuf;

/// The value of a variable that chooses a file. `None` where it is not set, or where this program has
/// rights that whoever started it may not have (setuid, setgid, capabilities of its file: `AT_SECURE`).
/// They choose its environment, and would write any file with its rights.
pub fn variable(name: &str) -> Option<OsString> {
    // SAFETY: the function takes a number and reads what the kernel gave this process.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name).filter(|_| !is_secure)
}

/// The path of a file that weir keeps: the value of the variable, or else a path below
/// `XDG_STATE_HOME` or `~/.local/state`. `None` if there is no home. What is no whole path counts as not
/// set there: it would be another directory for each process.
pub fn kept(name: &str, file: &str) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let whole = |name| set(name).filter(|path| path.is_absolute());
    let state = || whole("XDG_STATE_HOME").or_else(|| Some(whole("HOME")?.join(".local/state")));
    set(name).or_else(|| Some(state()?.join("weir").join(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    const ROLE: &str = "WEIR_TEST_ROLE";
    const NOBODY: u32 = 65_534;

    /// A program with the rights of its file's owner read and wrote the files that its user named.
    #[test]
    fn a_program_with_rights_of_its_own_heeds_no_variable_that_chooses_a_file() {
        if std::env::var_os(ROLE).is_some() {
            println!("says {:?} {:?}", variable("HOME"), kept("WEIR_TUNE", "tune"));
            return;
        }
        let path = std::env::temp_dir().join(format!("weir-places-{}", std::process::id()));
        // By another process: a child of another test could inherit it open for writing; then it
        // could not be started.
        let program = std::env::current_exe().expect("a program");
        assert!(Command::new("cp").arg(program).arg(&path).status().expect("cp").success());
        let run = || {
            let output = Command::new(&path)
                .args(["heeds_no_variable", "--nocapture", "--test-threads=1", "-q"])
                .env_clear()
                .envs([(ROLE, "says"), ("HOME", "/home/me"), ("WEIR_TUNE", "/home/me/tune")])
                .output()
                .expect("started");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let own = run();
        let owned = std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY));
        let changed = owned.and_then(|()| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755))
        });
        let granted = run();
        std::fs::remove_file(&path).expect("removed");
        assert!(own.contains("Some(\"/home/me\") Some(\"/home/me/tune\")"), "{own}");
        match changed {
            Ok(()) => assert!(granted.contains("says None None"), "{granted}"),
            Err(why) => println!("SKIPPED: no file of another user: {why}"),
        }
    }
}
