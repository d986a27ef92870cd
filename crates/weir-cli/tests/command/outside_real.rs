//! Stages that wait for servers in common use (a database, ssh), for devices and for disks. Each
//! test starts its own server, where one is installed.

use crate::common::killed::Killed;
use crate::common::{Ran, alone, have, pipeline, python, truth, until};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn verdict(ran: &Ran) -> &str {
    ran.json["verdict"]["text"].as_str().unwrap_or_default()
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: only root can do this");
    }
    root
}

/// Runs a program to its end. Returns whether it succeeded.
fn works(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    let quiet = command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    quiet.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// An sshd on loopback, and the words that run a command there.
fn sshd(directory: &Path) -> Option<(Killed, String)> {
    let sshd = Path::new("/usr/sbin/sshd");
    if !have(&["ssh", "ssh-keygen"]) || !sshd.is_file() || !is_root() {
        eprintln!("SKIPPED: no sshd");
        return None;
    }
    let path = |name: &str| directory.join(name).display().to_string();
    for key in ["host", "user"] {
        assert!(works("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]));
    }
    // The directory that sshd needs to separate its privileges.
    std::fs::create_dir_all("/run/sshd").expect("made");
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.local_addr().expect("known").port()
    };
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         PidFile none\nUsePAM no\nPermitRootLogin yes\n",
        path("host"),
        path("user.pub")
    );
    std::fs::write(directory.join("config"), config).expect("written");
    let mut command = Command::new(sshd);
    command.args(["-D", "-e", "-f", &path("config")]).stderr(Stdio::null()).stdin(Stdio::null());
    let server = Killed(command.spawn().expect("it starts"));
    until("sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let ssh = format!(
        "ssh -F none -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR \
         -o UserKnownHostsFile=/dev/null -p {port} root@127.0.0.1",
        path("user")
    );
    if !works("sh", &["-c", &format!("timeout 20 {ssh} true")]) {
        eprintln!("SKIPPED: sshd lets nobody in");
        return None;
    }
    Some((server, ssh))
}

#[test]
fn what_a_command_behind_ssh_does_is_seen() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let Some((_server, ssh)) = sshd(directory.path()) else { return };
    let ran = pipeline(&format!("{ssh} 'sleep 6; echo done' | cat"));
    assert_eq!(ran.stdout(), "done\n");
    let said = "held up by process sleep ";
    assert!(verdict(&ran).starts_with(said), "{}: {}", verdict(&ran), ran.json["stages"][0]);
    assert!(verdict(&ran).contains("asleep"), "{}", verdict(&ran));
    let computes = "perl -e \"while((times)[0]<4){\\$x++ for 1..1000}\"";
    let ran = pipeline(&format!("{ssh} '{computes}' | cat"));
    assert!(verdict(&ran).starts_with("held up by process perl "), "{}", verdict(&ran));
}

/// A PostgreSQL whose socket is in this directory.
struct Postgres {
    bin: PathBuf,
    directory: PathBuf,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "stop"]);
    }
}

impl Postgres {
    fn start(directory: &Path) -> Option<Postgres> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let bin = versions.map(|version| version.path().join("bin")).max();
        let user = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let Some(bin) =
            bin.filter(|bin| bin.join("initdb").is_file() && user.contains("\npostgres:"))
        else {
            eprintln!("SKIPPED: no PostgreSQL");
            return None;
        };
        if !is_root() || !have(&["psql", "setpriv"]) {
            return None;
        }
        let server = Postgres { bin, directory: directory.to_owned() };
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).expect("allowed");
        assert!(
            server.run("initdb", &["-D", "data", "-A", "trust", "-U", "postgres", "--no-sync"])
        );
        let options = format!("-k {} -c listen_addresses=", directory.display());
        assert!(server.run("pg_ctl", &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]));
        Some(server)
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
        command.arg(self.bin.join(program)).args(args).current_dir(&self.directory);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }
}

#[test]
fn a_database_that_computes_is_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let Some(server) = Postgres::start(directory.path()) else { return };
    let psql = format!("psql -h {} -U postgres -At", server.directory.display());
    let query = "select count(*) from generate_series(1, 6000000) where random() < 0.5";
    let ran = pipeline(&format!("{psql} -c '{query}' | cat"));
    let peer = &ran.json["stages"][0]["peer"];
    assert_eq!(peer["limit"], "process", "{}", ran.json["stages"][0]);
    assert!(verdict(&ran).starts_with("held up by process postgres "), "{}", verdict(&ran));
    assert!(verdict(&ran).contains("outside the pipeline: "), "{}", verdict(&ran));
    let ran = pipeline(&format!("{psql} -c 'select pg_sleep(1)' | cat"));
    let peer = &ran.json["stages"][0]["peer"];
    assert_eq!(peer["process"]["program"], "postgres", "{peer}");
}

/// A connection that the server had not accepted at the first look was said to be that of its first process,
/// of which nothing more was known.
#[test]
fn many_short_statements_are_waits_for_the_process_that_serves_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(server) = Postgres::start(directory.path()) else { return };
    let list = directory.path().join("list.sql");
    let statements: String = (0..30_000).map(|at| format!("select {at};\n")).collect();
    std::fs::write(&list, statements).expect("written");
    let (place, list) = (server.directory.display(), list.display());
    truth(|| {
        let ran = pipeline(&format!("psql -q -h {place} -U postgres -At -f {list} | tail -n 1"));
        assert_eq!(ran.stdout(), "29999\n");
        let peer = &ran.json["stages"][0]["peer"];
        let title = peer["process"]["title"].as_str().unwrap_or_default();
        assert!(title.starts_with("postgres postgres [local]"), "{peer}");
        assert!(verdict(&ran).contains(" k waits of "), "{}: {peer}", verdict(&ran));
    });
}

#[test]
fn a_fifo_and_a_device_are_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    assert!(works("mkfifo", &[&fifo.display().to_string()]));
    let later = fifo.clone();
    let writer = std::thread::spawn(move || {
        // sleep: this is the writer for which the stage waits.
        std::thread::sleep(std::time::Duration::from_millis(800));
        std::fs::write(later, "x").expect("written");
    });
    let ran = pipeline(&format!("cat {} | wc -c", fifo.display()));
    writer.join().expect("written");
    let said = format!("waiting for {} ", fifo.display());
    assert!(verdict(&ran).contains(&said), "{}: {}", verdict(&ran), ran.json["stages"][0]);
    assert_eq!(ran.json["stages"][0]["files"][0]["path"].as_str(), fifo.to_str());
    if !have(&["python3"]) {
        return;
    }
    let reads =
        "import os, signal\nmaster, slave = os.openpty()\nsignal.alarm(1)\nos.read(master, 1)";
    let script = directory.path().join("reads.py");
    std::fs::write(&script, reads).expect("written");
    let ran = pipeline(&format!("{} {} | cat", python(), script.display()));
    let file = &ran.json["stages"][0]["files"][0];
    assert_eq!(file["kind"], "device", "{}", ran.json["stages"][0]);
    assert!(verdict(&ran).contains("waiting for /dev/p"), "{}", verdict(&ran));
}

/// A file system of its own in a file, mounted. Dropping this unmounts it.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let place = self.0.display().to_string();
        works("fsfreeze", &["-u", &place]);
        works("umount", &[&place]);
    }
}

#[test]
fn a_disk_that_does_not_answer_is_named_by_file_and_file_system() {
    let _alone = alone();
    if !have(&["mkfs.ext4", "mount", "fsfreeze", "python3"]) || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (image, place) = (directory.path().join("image"), directory.path().join("disk"));
    std::fs::create_dir(&place).expect("made");
    std::fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("made");
    let (image, mounted) = (image.display().to_string(), place.display().to_string());
    if !works("mkfs.ext4", &["-q", "-F", &image])
        || !works("mount", &["-o", "loop", &image, &mounted])
    {
        eprintln!("SKIPPED: no loop device can be mounted here");
        return;
    }
    let disk = Mount(place);
    let file = disk.0.join("x");
    std::fs::write(&file, "before").expect("written");
    let script = directory.path().join("writes.py");
    let writes = format!("f = open('{}', 'r+b', 0)\nf.write(b'after')\n", file.display());
    std::fs::write(&script, writes).expect("written");
    assert!(works("fsfreeze", &["-f", &mounted]));
    let thaw = std::thread::spawn(move || {
        // sleep: this is how long the file system is frozen.
        std::thread::sleep(std::time::Duration::from_millis(1000));
        works("fsfreeze", &["-u", &mounted])
    });
    let ran = pipeline(&format!("{} {} | cat", python(), script.display()));
    assert!(thaw.join().expect("thawed"));
    let wait = &ran.json["stages"][0]["files"][0];
    assert_eq!((&wait["kind"], wait["path"].as_str()), (&"disk".into(), file.to_str()), "{wait}");
    assert!(wait["on"].as_str().is_some_and(|on| on.starts_with("ext4 on loop")), "{wait}");
    let said = format!("waiting for the disk to write {} (ext4 on loop", file.display());
    assert!(verdict(&ran).contains(&said), "{}", verdict(&ran));
    assert_eq!(ran.json["verdict"]["reason"], "disk");
}
