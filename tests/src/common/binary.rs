//! The commands under test. All are in one directory, as where they are installed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A command, by its name. It stands for its path.
///
/// Cargo builds the binaries of the packages whose tests it runs: all of them in a run of the
/// workspace. One of another package that is not there is built when it is first asked for. One that
/// is there is taken as it is: to build it here would be another selection of packages, for which
/// cargo builds all their dependencies again, and would replace what other tests are running.
#[derive(Clone, Copy, Debug)]
pub struct Binary(pub &'static str);

impl Binary {
    /// Returns the path.
    pub fn path(self) -> &'static str {
        static PATHS: OnceLock<Mutex<BTreeSet<&'static str>>> = OnceLock::new();
        let mut paths =
            PATHS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let path = directory().join(self.0);
        let path = path.to_str().expect("a path in UTF-8");
        if let Some(known) = paths.get(path) {
            return known;
        }
        if !std::path::Path::new(path).exists() {
            build(&format!("{}-cli", self.0));
        }
        let path: &'static str = path.to_owned().leak();
        paths.insert(path);
        path
    }

    /// Makes sure that the command is there, for another that runs it.
    pub fn need(self) {
        self.path();
    }
}

/// The directory of this build, in which the tests are in `deps`.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let deps = test.parent().expect("a directory");
    deps.parent().filter(|_| deps.ends_with("deps")).expect("the directory of the build").into()
}

fn build(package: &str) {
    let directory = directory();
    let target = directory.parent().expect("the target directory");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--offline", "--package", package, "--bins"]);
    cargo.arg("--target-dir").arg(target);
    cargo.args(directory.ends_with("release").then_some("--release"));
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "{package} is built");
}

impl AsRef<OsStr> for Binary {
    fn as_ref(&self) -> &OsStr {
        self.path().as_ref()
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}
