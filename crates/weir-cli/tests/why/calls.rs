//! Waits that are told apart by the call, and by what its arguments name.

use super::common::{WEIR, have, until};
use super::{Staged, directory, says, why};
use serde_json::Value;
use std::process::{Command, Stdio};

/// What ctypes needs to call the C library.
const C: &str = "import ctypes, os, time\nc = ctypes.CDLL(None)\n";

fn second(seen: &Value) -> Option<i64> {
    seen["chain"][1]["pid"].as_i64()
}

/// The signal set of `sigtimedwait` was once read as a time, and `timeout` said to sleep.
#[test]
fn a_signal_is_no_sleep() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "exec timeout 3000 sleep 3001");
    let seen = says(staged.id(), &["(timeout 3000 sleep 3001) waits for a signal"]);
    assert_eq!(seen["chain"][0]["kind"], "events");
    assert!(!seen["answer"].as_str().unwrap_or_default().contains("at most"), "{seen:#}");
    let (_staged, pid) = Staged::python(
        "import os, signal\nprint(os.getpid(), flush=True)\n\
         signal.sigtimedwait([signal.SIGUSR1], 777)\n",
    );
    says(pid, &["waits for a signal, for 777s at most"]);
    let (_staged, pid) =
        Staged::python("import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n");
    says(pid, &["waits for a signal"]);
}

/// Of all children the busiest was named, whichever the process asked for.
#[test]
fn the_child_that_is_asked_for_is_named() {
    let waits = [
        "os.waitpid(a, 0)",
        "os.waitid(os.P_PID, a, os.WEXITED)",
        "os.waitid(os.P_PIDFD, os.pidfd_open(a), os.WEXITED)",
        "os.waitpid(0, 0)",
        "os.waitid(os.P_PGID, os.getpgid(0), os.WEXITED)",
    ];
    for wait in waits {
        let (staged, asked) = Staged::python(&format!(
            "{C}a = os.fork()\nif a == 0: time.sleep(1000)\n\
             ready, done = os.pipe()\nb = os.fork()\n\
             if b == 0:\n c.prctl(1, 9); os.setpgid(0, 0); os.write(done, b'x')\n \
             while True: pass\n\
             os.read(ready, 1); print(a, flush=True)\n{wait}\n"
        ));
        let seen = says(staged.id(), &["waits for the end of its child", "which sleeps"]);
        assert_eq!(second(&seen), Some(asked.into()), "{wait}: {seen:#}");
        assert_eq!(seen["chain"][0]["waits_for_pids"], serde_json::json!([asked]));
    }
}

/// A queue or a set of semaphores that outlives its users.
struct Left(&'static str, i32);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").args([self.0, &self.1.to_string()]).status();
    }
}

/// All of these were once locks of another thread, also of processes without one.
#[test]
fn queues_and_semaphores_are_no_threads() {
    if have(&["ipcrm"]) {
        let (staged, id) = Staged::python(&format!(
            "{C}q = c.msgget(0, 0o600); print(q, flush=True)\n\
             c.msgrcv(q, ctypes.create_string_buffer(64), 8, 0, 0)\n"
        ));
        let _left = Left("-q", id);
        says(staged.id(), &["waits for a message in a queue of System V"]);
        let (staged, id) = Staged::python(&format!(
            "{C}s = c.semget(0, 1, 0o600); print(s, flush=True)\n\
             c.semop(s, (ctypes.c_short * 3)(0, -1, 0), 1)\n"
        ));
        let _left = Left("-s", id);
        let seen = says(staged.id(), &["waits for a semaphore of System V"]);
        assert_eq!(seen["chain"][0]["kind"], "lock");
    }
    let (_staged, pid) = Staged::python(&format!(
        "{C}name = b'/weir-why-%d' % os.getpid()\n\
         q = c.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)\nc.mq_unlink(name)\n\
         print(os.getpid(), flush=True)\nroom = ctypes.create_string_buffer(65536)\n\
         c.mq_receive(q, room, 65536, None)\n"
    ));
    says(pid, &["waits for a message in the queue /weir-why-"]);
}

#[test]
fn who_has_no_other_thread_waits_for_none() {
    let waits = [
        ("l.acquire()", "a lock or a condition of its own, and has no other thread"),
        ("l.acquire(timeout=1000)", "for a limited time: it has no other thread"),
        (
            "c.pthread_mutex_lock(m); c.pthread_mutex_lock(m)",
            "a lock in memory that it holds itself",
        ),
        (
            "c.syscall(449, v, 1, 0, None, 0) < 0 and l.acquire()",
            "a lock or a condition of its own, and has no other",
        ),
    ];
    for (wait, text) in waits {
        let (_staged, pid) = Staged::python(&format!(
            "{C}import threading\nl = threading.Lock(); l.acquire()\n\
             m = ctypes.create_string_buffer(64)\n\
             word = ctypes.c_uint32(0)\n\
             v = (ctypes.c_uint64 * 3)(0, ctypes.addressof(word), 2 | 128)\n\
             print(os.getpid(), flush=True)\n{wait}\ntime.sleep(1000)\n"
        ));
        says(pid, &[text]);
    }
}

/// A connection that nobody takes was once a wait for data on "a socket".
#[test]
fn a_connection_that_nobody_takes_names_who_listens() {
    let directory = directory();
    let path = directory.path().join("s");
    let path = path.to_str().expect("a name");
    let unix = format!("s = socket.socket(socket.AF_UNIX); s.bind('{path}')");
    let inet = "s = socket.socket(); s.bind(('127.0.0.1', 0))";
    let later = "for one in more: one.setblocking(False)\n \
        for one in more: one.connect_ex(s.getsockname())\n \
        p = select.poll(); [p.register(one, select.POLLOUT) for one in more]; p.poll()\n ";
    let unix_text = format!("waits to be connected to the unix socket {path}, the listening");
    let inet_text = "waits to be connected to 127.0.0.1:";
    for (bind, later, text) in
        [(unix.as_str(), "", unix_text.as_str()), (inet, "", inet_text), (inet, later, inet_text)]
    {
        let (staged, child) = Staged::python(&format!(
            "import os, select, socket, time\n{bind}\ns.listen(0)\n\
             first = socket.socket(s.family); first.connect(s.getsockname())\n\
             more = [socket.socket(s.family)]\nchild = os.fork()\n\
             if child == 0:\n {later}more[0].connect(s.getsockname())\n time.sleep(1000)\n\
             print(child, flush=True)\ntime.sleep(1000)\n"
        ));
        let seen = says(child, &[text, "the listening socket of", "which sleeps"]);
        // The child has the listening socket open too.
        assert_eq!(second(&seen), Some(staged.id().into()), "{seen:#}");
        assert_eq!(seen["chain"][0]["kind"], "socket");
    }
}

/// `weir run` waits for its stages in `poll`, beside a socket of the kernel's.
#[test]
fn who_polls_for_the_end_of_a_process_waits_for_that() {
    let directory = directory();
    let mut command = Command::new(WEIR);
    command.args(["run", "sleep 1000 | cat"]).current_dir(directory.path());
    command.stdout(Stdio::null());
    let staged = Staged::new(command);
    says(staged.id(), &["waits for the end of its child", "(sleep 1000)"]);
    let (staged, child) = Staged::python(
        "import os, select, time\nchild = os.fork()\n\
         if child == 0:\n p = select.poll(); p.register(os.pidfd_open(os.getppid()), 1); p.poll()\n\
         print(child, flush=True)\ntime.sleep(1000)\n",
    );
    let seen = says(child, &["waits for the end of", "which sleeps"]);
    assert_eq!(second(&seen), Some(staged.id().into()), "{seen:#}");
    assert!(!seen["answer"].as_str().unwrap_or_default().contains("its child"), "{seen:#}");
}

/// The process was once called a zombie.
#[test]
fn a_process_goes_on_after_its_first_thread() {
    let exit = if cfg!(target_arch = "x86_64") { 60 } else { 93 };
    let others: [(&str, &[&str]); 2] =
        [("while True: pass", &["computes", "cpu"]), ("time.sleep(1000)", &["sleep"])];
    for (other, kinds) in others {
        let (staged, _) = Staged::python(&format!(
            "{C}import threading\ndef f():\n {other}\n\
             threading.Thread(target=f).start()\nprint(os.getpid(), flush=True)\n\
             c.syscall({exit}, 0)\n"
        ));
        until("its first thread ends", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", staged.id()));
            status.is_ok_and(|text| text.contains("\nState:\tZ"))
        });
        until("it goes on", || {
            let seen = why(staged.id());
            kinds.iter().any(|kind| seen["chain"][0]["kind"] == *kind)
        });
    }
}

#[test]
fn who_writes_to_a_full_terminal_waits_for_nobody_to_type() {
    let (_staged, pid) = Staged::python(
        "import os\nmaster, slave = os.openpty()\nprint(os.getpid(), flush=True)\n\
         while True: os.write(slave, b'x' * 65536)\n",
    );
    says(pid, &["waits for room in the output of the terminal /dev/pts/", "(Ctrl-S)"]);
}

#[test]
fn a_lock_that_the_process_holds_itself() {
    let (_staged, pid) = Staged::python(
        "import fcntl, os, tempfile\nf = tempfile.NamedTemporaryFile(); g = open(f.name)\n\
         fcntl.flock(f, fcntl.LOCK_EX)\nprint(os.getpid(), flush=True)\n\
         fcntl.flock(g, fcntl.LOCK_EX)\n",
    );
    says(pid, &["waits for the lock on /", "which it holds itself, by another open of the file"]);
}

/// The first that held any lock on the file was once named.
#[test]
fn who_holds_other_bytes_of_a_file_is_not_named() {
    let (staged, holder) = Staged::python(
        "import fcntl, os, tempfile, time\nf = tempfile.TemporaryFile()\nr, w = os.pipe()\n\
         def hold(at):\n child = os.fork()\n \
         if child == 0:\n  fcntl.lockf(f, fcntl.LOCK_EX, 10, at); os.write(w, b'x')\n  time.sleep(1000)\n \
         os.read(r, 1); return child\n\
         hold(0); print(hold(10), flush=True); hold(20)\nfcntl.lockf(f, fcntl.LOCK_EX, 10, 10)\n",
    );
    let seen = says(staged.id(), &["waits for the lock on", "held by"]);
    assert_eq!(seen["chain"][0]["waits_for_pids"], serde_json::json!([holder]));
}

/// A parent that started a program was once said to wait in the kernel, in `kernel_clone`.
#[test]
fn a_parent_waits_for_the_child_that_has_its_memory() {
    let directory = directory();
    let fifo = directory.path().join("fifo");
    let (staged, _) = Staged::python(&format!(
        "import os\nos.mkfifo('{0}')\nprint(os.getpid(), flush=True)\n\
         os.posix_spawn('/bin/true', ['true'], {{}}, \
         file_actions=[(os.POSIX_SPAWN_OPEN, 0, '{0}', os.O_RDONLY, 0)])\n",
        fifo.display()
    ));
    let texts =
        ["waits for a program that is being started (vfork) by its child", "opens the other"];
    let seen = says(staged.id(), &texts);
    assert_eq!(seen["chain"][0]["kind"], "child");
}
