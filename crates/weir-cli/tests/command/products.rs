//! Verbs that have binaries of their own: `weir` runs them, found beside itself, then in PATH.

use crate::common::port::said;
use crate::common::{WEIR, write_program};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Tells its arguments, its standard descriptors and what it ignores, and ends with a status.
const TELLS: &str = "#!/bin/sh
for fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] || closed=\"$closed $fd\"; done
echo \"$(basename \"$0\"): $* closed:$closed $(grep SigIgn /proc/$$/status)\" > \"$TOLD\"
exit 7
";

/// A directory with a `weir` of its own.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().expect("a directory");
        let copied = Command::new("cp").arg(WEIR).arg(directory.path()).status();
        assert!(copied.expect("cp starts").success());
        std::fs::create_dir(directory.path().join("path")).expect("made");
        Place { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, program: &str) {
        write_program(self.path(program), TELLS);
    }

    /// Runs a script in which `$WEIR` is the command.
    fn bash(&self, script: &str) -> Output {
        let _ = std::fs::remove_file(self.path("told"));
        let path =
            std::env::join_paths([&self.path("path"), Path::new("/usr/bin"), Path::new("/bin")]);
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).env("WEIR", self.path("weir")).env("TOLD", self.path("told"));
        bash.env("PATH", path.expect("a path")).output().expect("bash starts")
    }

    fn told(&self) -> String {
        std::fs::read_to_string(self.path("told")).unwrap_or_default()
    }

    /// Runs `weir ARGS`, which must end as the other binary does, and returns what that tells.
    fn runs(&self, args: &str) -> String {
        let output = self.bash(&format!("exec \"$WEIR\" {args}"));
        assert_eq!(output.status.code(), Some(7), "{args}: {}", said(&output));
        self.told().split(" closed:").next().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_verb_of_another_binary_gets_its_arguments_and_gives_its_status() {
    let place = Place::new();
    ["weir-bench", "weir-net", "weir-model"].into_iter().for_each(|binary| place.put(binary));
    assert_eq!(place.runs("net up --inline 10.9.0.2 '' -x"), "weir-net: up --inline 10.9.0.2  -x");
    assert_eq!(place.runs("bench joy-ipc"), "weir-bench: joy-ipc");
    assert_eq!(place.runs("compare a b"), "weir-bench: compare a b");
    assert_eq!(place.runs("history --json -"), "weir-bench: history --json -");
    assert_eq!(place.runs("model"), "weir-model: ");
    assert_eq!(place.runs("help net tftp get"), "weir-net: tftp get --help");
    assert_eq!(place.runs("help compare"), "weir-bench: compare --help");
}

#[test]
fn a_binary_is_found_beside_weir_then_in_path() {
    let place = Place::new();
    place.put("path/weir-net");
    assert_eq!(place.runs("net stat"), "weir-net: stat");
    std::fs::write(place.path("path/weir-net"), "#!/bin/sh\nexit 3\n").expect("written");
    place.put("weir-net");
    assert_eq!(place.runs("net stat"), "weir-net: stat");
}

#[test]
fn what_is_not_installed_is_named_with_the_line_that_installs_it() {
    let place = Place::new();
    for verb in ["bench", "history", "net"] {
        let output = place.bash(&format!("exec \"$WEIR\" {verb} --absent"));
        let expected = format!(
            "weir: 'weir {verb}' is not installed; to install it: curl -fsSL \
             https://github.com/weir-project/weir/releases/latest/download/install.sh | sh\n"
        );
        assert_eq!((said(&output), output.status.code()), (expected, Some(1)));
    }
    place.put("weir-net");
    let help = String::from_utf8_lossy(&place.bash("\"$WEIR\" help").stdout)
        .replace("\n               ", " ");
    let of = |verb: &str| {
        let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{verb} ")));
        line.unwrap_or_else(|| panic!("{verb} in {help}")).to_owned()
    };
    assert!(help.contains("(not installed: curl -fsSL"), "{help}");
    assert!(!of("net").contains("not installed"), "{help}");
}

/// The runtime opens `/dev/null` in place of closed descriptors, and ignores SIGPIPE.
#[test]
fn another_binary_starts_as_weir_was_started() {
    let place = Place::new();
    place.put("weir-net");
    let told = |script: &str| {
        let output = place.bash(script);
        assert_eq!(output.status.code(), Some(7), "{}", said(&output));
        place.told()
    };
    const PIPE: u64 = 1 << 12;
    let ignores = |told: &str| {
        let mask = told.split_whitespace().last().expect("a mask");
        u64::from_str_radix(mask, 16).expect("a number") & PIPE != 0
    };
    let usual = told("exec \"$WEIR\" net");
    assert!(usual.contains("closed: SigIgn") && !ignores(&usual), "{usual}");
    let closed = told("exec \"$WEIR\" net <&- >&-");
    assert!(closed.contains("closed: 0 1 SigIgn"), "{closed}");
    assert!(ignores(&told("trap '' PIPE; exec \"$WEIR\" net")));
}

/// Completions and manual pages are those of all that is installed.
#[test]
fn completions_and_manual_pages_cover_what_is_installed() {
    let place = Place::new();
    let script = |shell: &str| {
        let output = place.bash(&format!("\"$WEIR\" completions {shell}"));
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!script("bash").contains("--pcap"));
    let net = crate::common::Binary("weir-net");
    std::os::unix::fs::symlink(net.path(), place.path("weir-net")).expect("linked");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        assert!(script.contains("pcap") && script.contains("elastic"), "{shell}");
    }
    let output = place.bash(&format!("\"$WEIR\" man --out {}", place.path("man").display()));
    assert!(output.status.success(), "{}", said(&output));
    for page in ["weir.1", "weir-run.1", "weir-net.1", "weir-net-tftp-get.1"] {
        assert!(place.path("man").join(page).is_file(), "{page}");
    }
}
