//! The install script: what it installs, and what it refuses. `packaging/dist --quick --out
//! target/bare` builds the archive that it takes; without it the tests are skipped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A directory like that of a release, and a prefix.
struct Release {
    directory: TempDir,
    prefix: TempDir,
}

impl Release {
    fn copied() -> Option<Release> {
        let built = Path::new("../../target/bare");
        let Ok(sums) = fs::read_to_string(built.join("SHA256SUMS")) else {
            eprintln!("SKIPPED: there is no archive in target/bare");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let names = sums.lines().filter_map(|line| line.split("  ").nth(1));
        for name in names.chain(["SHA256SUMS"]) {
            fs::copy(built.join(name), directory.path().join(name)).expect("a copy");
        }
        Some(Release { directory, prefix: tempfile::tempdir().expect("a directory") })
    }

    fn file(&self, ending: &str) -> PathBuf {
        let entries = fs::read_dir(self.directory.path()).expect("it is ours");
        let paths = entries.map(|entry| entry.expect("it can be read").path());
        paths
            .into_iter()
            .find(|path| path.to_string_lossy().ends_with(ending))
            .expect("it is there")
    }

    /// Runs the script. Returns whether it succeeded, and what it said.
    fn install(&self, more: &[(&str, &str)]) -> (bool, String) {
        let mut command = Command::new("sh");
        command.arg("../../packaging/install.sh").envs(more.iter().copied());
        command.env("WEIR_FROM", self.directory.path());
        let prefix = more.iter().find(|(name, _)| *name == "WEIR_PREFIX").map(|each| each.1);
        command.env("WEIR_PREFIX", prefix.map_or(self.prefix.path(), Path::new));
        let output = command.output().expect("sh starts");
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.prefix.path()).expect("it is ours").next().is_none()
    }
}

#[test]
fn the_installer_installs_a_weir_that_runs() {
    let Some(release) = Release::copied() else { return };
    for _ in 0..2 {
        let (done, text) = release.install(&[]);
        assert!(done && text.contains(" is in ") && text.contains("add it to your PATH"), "{text}");
    }
    let weir = release.prefix.path().join("bin/weir");
    let version = Command::new(&weir).arg("--version").output().expect("it starts");
    assert!(version.stdout.starts_with(b"weir 0."));
    for file in ["share/man/man1/weir-run.1", "share/bash-completion/completions/weir"] {
        assert!(release.prefix.path().join(file).is_file(), "{file}");
    }
    let hidden = fs::read_dir(release.prefix.path().join("bin")).expect("it is there");
    assert_eq!(hidden.count(), 1, "nothing is left beside it");
}

#[test]
fn an_archive_with_another_checksum_is_not_installed() {
    let Some(release) = Release::copied() else { return };
    let archive = release.file(".tar.gz");
    let mut bytes = fs::read(&archive).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).expect("it is ours");
    let (done, text) = release.install(&[]);
    assert!(
        !done && text.contains("is not the one in SHA256SUMS; nothing was installed"),
        "{text}"
    );
    assert!(release.is_empty());
}

#[test]
fn what_is_missing_is_named() {
    let Some(release) = Release::copied() else { return };
    let sums = release.directory.path().join("SHA256SUMS");
    fs::write(&sums, "").expect("it is ours");
    let (done, text) = release.install(&[]);
    assert!(!done && text.contains("has no archive for "), "{text}");
    fs::remove_file(&sums).expect("it is there");
    let (done, text) = release.install(&[]);
    assert!(!done && text.contains("cannot get SHA256SUMS from "), "{text}");
    assert!(release.is_empty());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let Some(release) = Release::copied() else { return };
    let file = release.prefix.path().join("file");
    fs::write(&file, "").expect("it is ours");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("it is ours");
    let prefix = file.join("below");
    let (done, text) = release.install(&[("WEIR_PREFIX", prefix.to_str().expect("UTF-8"))]);
    assert!(!done && text.contains("; WEIR_PREFIX says where to install"), "{text}");
}
