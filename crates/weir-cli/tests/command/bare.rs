//! The static binary where nothing else is: in an empty root, beside busybox alone, without /sys or
//! /proc, with hidden processes, as a user without a home, in a user namespace, and where system
//! calls are refused as a container's default profile refuses them. It works there, or says in a
//! sentence what is missing.
//!
//! `packaging/dist --quick` builds the binary. Without it, root and busybox the tests are skipped.

use crate::common::copy_program;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use weir_measure::sys::spawn::spawn;

/// The static binary: that of WEIR_STATIC, or what packaging/dist built last.
fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("WEIR_STATIC").map(PathBuf::from);
    let target = format!("../../target/dist/{}-unknown-linux-gnu", std::env::consts::ARCH);
    let built = ["release", "quick"].map(|profile| Path::new(&target).join(profile).join("weir"));
    let found = named.into_iter().chain(built).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: there is no static binary; packaging/dist --quick builds it");
    }
    found
}

/// A root directory with the static binary in it.
struct Root(TempDir);

impl Root {
    /// Returns one with nothing but the binary, or nothing where the tests cannot be run.
    fn empty() -> Option<Root> {
        let binary = binary()?;
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can change the root directory");
            return None;
        }
        let root = tempfile::tempdir().expect("a directory");
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).expect("it is ours");
        copy_program(binary, root.path().join("weir"));
        Some(Root(root))
    }

    /// Adds a busybox that needs no library, a /tmp, /dev/null and places to mount on.
    fn with_busybox() -> Option<Root> {
        let root = Root::empty()?;
        let Some(busybox) = static_busybox() else {
            eprintln!("SKIPPED: busybox-static is not installed");
            return None;
        };
        for directory in ["bin", "tmp", "dev", "proc", "sys"] {
            fs::create_dir(root.path().join(directory)).expect("a new directory");
        }
        fs::set_permissions(root.path().join("tmp"), Permissions::from_mode(0o1777)).expect("ours");
        copy_program(busybox, root.path().join("bin/busybox"));
        for applet in APPLETS.split(' ') {
            symlink("busybox", root.path().join("bin").join(applet)).expect("a new link");
        }
        Some(root)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `script` by busybox's shell inside, as `system` has it.
    fn shell(&self, system: &System, script: &str) -> Output {
        let enter = format!(
            "set -e; cd '{}'; mount --make-rprivate /; mount --bind . .; cd '{}'; touch dev/null; \
             mount --bind /dev/null dev/null; {}; exec chroot {} . /bin/sh -c \"$1\"",
            self.path().display(),
            self.path().display(),
            system.mounts,
            system.user
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--ipc", "sh", "-c", &enter]);
        command.args(["sh", script]).env_clear().env("PATH", SBIN);
        command.envs(system.environment.iter().copied());
        if system.refuses { refused(command) } else { command.output().expect("it starts") }
    }
}

/// Where Debian has what mounts and changes the root.
const SBIN: &str = "/bin:/usr/bin:/sbin:/usr/sbin";
const APPLETS: &str = "sh seq sort head tail cat sleep true kill echo";

fn static_busybox() -> Option<PathBuf> {
    let places = ["/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static"].map(PathBuf::from);
    let is_static = |path: &PathBuf| {
        // A dynamic one does not start where no library is.
        let root = tempfile::tempdir().expect("a directory");
        fs::copy(path, root.path().join("busybox")).is_ok()
            && Command::new("chroot")
                .arg(root.path())
                .args(["/busybox", "true"])
                .output()
                .is_ok_and(|output| output.status.success())
    };
    places.into_iter().find(is_static)
}

/// How a bare system differs from a host.
#[derive(Clone, Copy)]
struct System {
    name: &'static str,
    /// What is mounted, in the root directory.
    mounts: &'static str,
    /// Options of chroot that choose the user.
    user: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Whether system calls are refused as containers' default profiles refuse them.
    refuses: bool,
}

const PLAIN: System = System {
    name: "busybox alone",
    mounts: "mount -t proc proc proc; mount -t sysfs sysfs sys",
    user: "",
    environment: &[("HOME", "/")],
    refuses: false,
};
const NOWHERE: &str = "nothing can be written";
const USER: &str = "--userspec=65534:65534";
const SYSTEMS: &[System] = &[
    PLAIN,
    System { name: "without /sys", mounts: "mount -t proc proc proc", ..PLAIN },
    System {
        name: "as a user without a home, the root read-only",
        mounts: "mount -t proc proc proc; mount -t tmpfs -o mode=1777 tmpfs tmp; \
                 mount -o remount,bind,ro .",
        user: USER,
        environment: &[("HOME", "/nonexistent")],
        ..PLAIN
    },
    System {
        name: NOWHERE,
        mounts: "mount -t proc proc proc; mount -o remount,bind,ro .",
        user: USER,
        environment: &[],
        ..PLAIN
    },
    System {
        name: "processes of others are hidden",
        mounts: "mount -t proc -o hidepid=2 proc proc",
        user: USER,
        ..PLAIN
    },
    System { name: "refused system calls", refuses: true, ..PLAIN },
    System { name: "refused system calls, as a user", refuses: true, user: USER, ..PLAIN },
];

/// Refused, as in a container's default profile: looking into other processes by ptrace, perf and
/// BPF, io_uring, userfaultfd, keys and namespaces.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
];

/// Runs a command on a thread whose system calls are filtered; what it starts inherits the filter.
fn refused(mut command: Command) -> Output {
    let filtered = move || {
        let rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        let arch = std::env::consts::ARCH.try_into().expect("an architecture");
        let refuse = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
        let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
        seccompiler::apply_filter(&program).expect("filtered");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn(&mut command).expect("started").wait_with_output().expect("it ends")
    };
    std::thread::spawn(filtered).join().expect("it ran")
}

/// A script, and what its output must have. Standard error is part of it.
struct Check {
    script: &'static str,
    has: &'static [&'static str],
}

const CHECKS: &[Check] = &[
    Check {
        script: "/weir run 'seq 300000 | sort -r | head -1'",
        has: &["99999\n", "weir: ", " for 3 stages on ", "= 0"],
    },
    Check { script: "/weir run 'for i in 1 2; do echo $i; done'", has: &["1\n2\nweir: ", "= 0"] },
    Check {
        script: "sleep 30 | cat & PID=$!; /weir why $PID",
        has: &["(cat) waits for data or the end of file from a pipe of ", "(sleep 30)", "= 0"],
    },
    Check {
        script: "sleep 30 | cat & PID=$!; /weir watch --for 0.3s --brief $PID",
        has: &["held up by 1 sleep 30: asleep", "= 0"],
    },
    Check { script: "seq 100000 | /weir buffer -m 1M --no-spill | tail -1", has: &["100000\n= 0"] },
];

/// A port needs a place for its name.
const PORT: Check = Check {
    script: "/weir port read --until-closed q & echo hello | /weir port write q --wait 20s; wait $!",
    has: &["hello\n= 0"],
};

fn check(root: &Root, system: &System, check: &Check) {
    let script = format!("{{ {}; }} 2>&1; echo \"= $?\"; kill -9 -1", check.script);
    let output = root.shell(system, &script);
    let text = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    for part in check.has {
        assert!(
            text.contains(part),
            "{}: {}: no {part:?} in: {text}{why}",
            system.name,
            check.script
        );
    }
}

#[test]
fn it_works_where_only_busybox_is() {
    let Some(root) = Root::with_busybox() else { return };
    for system in SYSTEMS {
        CHECKS.iter().for_each(|each| check(&root, system, each));
        let named = system.name != NOWHERE;
        let port = if named { PORT } else { Check { has: &["Read-only file system"], ..PORT } };
        check(&root, system, &port);
    }
}

#[test]
fn it_says_what_it_cannot_see_without_proc() {
    let Some(root) = Root::with_busybox() else { return };
    let system = System { name: "without /proc", mounts: "true", ..PLAIN };
    for script in ["/weir why 1", "/weir watch 1 --for 1s", "/weir top --once"] {
        check(&root, &system, &Check { script, has: &["/proc is not mounted\n= 1"] });
    }
    for each in [&CHECKS[0], &CHECKS[1], &CHECKS[4], &PORT] {
        check(&root, &system, each);
    }
}

#[test]
fn it_works_in_a_user_namespace() {
    let Some(root) = Root::with_busybox() else { return };
    let script = format!(
        "mount --make-rprivate / && mount -t proc proc /proc && mount --rbind /dev {0}/dev && \
         mount --rbind /proc {0}/proc && exec chroot {0} /bin/sh -c \"$1\"",
        root.path().display()
    );
    for Check { script: inside, has } in CHECKS.iter().chain([&PORT]) {
        let inside = format!("PATH=/bin; {{ {inside}; }} 2>&1; echo \"= $?\"; kill -9 -1");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare"]);
        command.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-c", &script, "sh", &inside]).env("HOME", "/nonexistent");
        let output = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        if why.contains("unshare failed") {
            eprintln!("SKIPPED: users may make no namespaces here: {why}");
            return;
        }
        for part in *has {
            assert!(text.contains(part), "{inside}: no {part:?} in: {text}{why}");
        }
    }
}

#[test]
fn one_file_suffices() {
    let Some(root) = Root::empty() else { return };
    let run = |args: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(root.path()).arg("/weir").args(args).env_clear().env("PATH", SBIN);
        let output = command.output().expect("chroot starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), text)
    };
    let (status, version, _) = run(&["--version"]);
    assert_eq!((status, version.starts_with("weir 0.")), (Some(0), true), "{version}");
    // A pipeline needs no shell, and weir is the one program here.
    let (status, text, why) = run(&["run", "/weir --version | /weir buffer --no-spill"]);
    assert_eq!((status, text), (Some(0), version), "{why}");
    let (status, _, why) = run(&["run", "true"]);
    assert_eq!(status, Some(127));
    assert!(
        why.starts_with("weir: cannot start stage 1 'true': no such file or directory"),
        "{why}"
    );
    let (status, _, why) = run(&["run", "for i in 1 2; do true; done"]);
    let needs = "weir: cannot run 'for i in 1 2; do true; done': it needs a shell, and neither bash nor \
                 sh is installed\n";
    assert_eq!((status, &*why), (Some(1), needs));
}
