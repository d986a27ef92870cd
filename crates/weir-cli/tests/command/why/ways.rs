//! Who can end a wait, and what else can: a circle or a culprit is told only where it is one.

use super::{Staged, directory, says, why};
use crate::common::have;
use serde_json::Value;

/// What ctypes needs for a word in shared memory: `futex` waits for it while it has a value.
const FUTEX: &str = "import ctypes, mmap, os, time\nc = ctypes.CDLL(None)\n\
    m = mmap.mmap(-1, 4096)\n\
    words = (ctypes.c_uint32 * 4).from_buffer(m)\n\
    def futex(number, value, time=None): c.syscall(number, words, 0, value, time, None, 0)\n";

#[cfg(target_arch = "x86_64")]
const FUTEX_NUMBER: i64 = 202;
#[cfg(not(target_arch = "x86_64"))]
const FUTEX_NUMBER: i64 = 98;

fn links(seen: &Value) -> Vec<i64> {
    let chain = seen["chain"].as_array().expect("a chain").iter();
    chain.filter_map(|link| link["pid"].as_i64()).collect()
}

/// `wait` of dash is a loop around `sigsuspend`, and only "a signal" was named.
#[test]
fn a_shell_that_waits_in_sigsuspend_names_its_child() {
    if !have(&["dash"]) {
        return;
    }
    let directory = directory();
    for before in ["", "trap : USR1; "] {
        let text = format!("exec dash -c '{before}sleep 1000 & wait; :'");
        let staged = Staged::bash(directory.path(), &text);
        let seen = says(staged.id(), &["the end of its child", "(sleep 1000), which sleeps"]);
        assert_eq!(links(&seen)[1], i64::from(staged.find("sleep", "1000")));
    }
}

/// fish waits for a word that its handler of signals changes, and "had no other thread" for that.
#[test]
fn a_word_that_the_handler_of_a_child_s_end_changes_is_a_wait_for_the_child() {
    let (_staged, pid) = Staged::python(
        "import os, signal, threading, time\nif os.fork() == 0: time.sleep(1000)\n\
         signal.signal(17, print); l = threading.Lock(); l.acquire()\n\
         print(os.getpid(), flush=True)\nl.acquire()\n",
    );
    says(pid, &["the end of its child", "which sleeps"]);
}

/// The end of a child is no reason to wait for it where that signal is kept back, or has no handler.
#[test]
fn a_signal_that_the_end_of_a_child_does_not_send_names_no_child() {
    for set in ["pass", "signal.signal(17, print); signal.pthread_sigmask(0, [17])"] {
        let (_staged, pid) = Staged::python(&format!(
            "import os, signal, time\nif os.fork() == 0: time.sleep(1000)\n\
             {set}\nprint(os.getpid(), flush=True)\nsignal.sigwait([10])\n"
        ));
        let seen = says(pid, &["waits for a signal"]);
        assert_eq!(links(&seen).len(), 1, "{seen:#}");
    }
    let (_staged, pid) = Staged::python(
        "import os, signal, time\nif os.fork() == 0: time.sleep(1000)\n\
         signal.pthread_sigmask(0, [17])\nprint(os.getpid(), flush=True)\n\
         signal.sigwait([17])\n",
    );
    says(pid, &["the end of its child", "which sleeps"]);
}

/// Of a connected UDP socket only the address was told.
#[test]
fn a_connected_udp_socket_names_who_gets_what_it_sends() {
    let (staged, child) = Staged::python(
        "import os, socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.bind(('127.0.0.1', 0)); address = s.getsockname()\nchild = os.fork()\n\
         if child == 0:\n s.close(); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n \
         s.connect(address); s.recv(1)\n\
         print(child, flush=True)\ntime.sleep(1000)\n",
    );
    let seen = says(child, &["waits for data on its socket to 127.0.0.1:", "which sleeps"]);
    assert_eq!(links(&seen)[1], i64::from(staged.id()));
}

/// The answering side of a pseudo-terminal waited for "/dev/ptmx".
#[test]
fn the_answering_side_of_a_terminal_names_who_uses_it() {
    let (_staged, pid) = Staged::python(
        "import os, pty\nchild, end = pty.fork()\n\
         if child == 0: os.execvp('sleep', ['sleep', '1000'])\n\
         print(os.getpid(), flush=True)\nos.read(end, 1)\n",
    );
    let seen = says(pid, &["waits for output of the terminal /dev/", "(sleep 1000), which sleeps"]);
    assert_eq!(seen["chain"][0]["kind"], "file");
    let (_staged, pid) = Staged::python(
        "import os, pty\nboth = pty.openpty()\nprint(os.getpid(), flush=True)\n\
         os.read(both[0], 1)\n",
    );
    says(pid, &["which nobody else has open, as far as can be seen"]);
}

/// Two that waited for each other "could not continue", though a time or another process lets them.
#[test]
fn a_time_limit_or_another_owner_of_a_socket_makes_it_no_circle() {
    let both = "a.recv(1) if child else b.recv(1)";
    let time = "for one in a, b: one.setsockopt(1, 20, b'\\xe8\\3' + b'\\0' * 14)";
    let other = "0 if os.fork() else time.sleep(1000)";
    for (before, within, is_circle) in
        [("pass", "0", true), (time, "0", false), ("pass", other, false)]
    {
        let (staged, child) = Staged::python(&format!(
            "import os, socket, time\na, b = socket.socketpair()\n{before}\nchild = os.fork()\n\
             if child == 0:\n a.close(); {within}\nelse:\n b.close(); print(child, flush=True)\n\
             {both}\n"
        ));
        let next = if within == "0" { "which waits for data on" } else { "which sleeps" };
        says(child, &["waits for data on a socket of"]);
        let answer = says(staged.id(), &["waits for data on a socket of", next]);
        let said = answer["answer"].as_str().expect("an answer").contains("in a circle");
        assert_eq!(said, is_circle, "{before} {within}: {answer:#}");
    }
}

/// An alarm was set, or a timer, and two "could not continue".
#[test]
fn an_alarm_or_a_timer_makes_it_no_circle() {
    let handle = |signals: &str| format!("for it in {signals}: signal.signal(it, print)");
    let timer = "c = ctypes.CDLL(None); c.timer_create(0, None, ctypes.byref(ctypes.c_void_p()))";
    for (within, is_circle) in [
        ("signal.alarm(1000)".to_owned() + "; " + "signal.signal(14, print)", false),
        (timer.to_owned(), false),
        // Who has handlers for all that ends it has this one too.
        ("all()".to_owned(), true),
    ] {
        let (staged, child) = Staged::python(&format!(
            "import ctypes, os, signal, socket\na, b = socket.socketpair()\n\
             def all():\n {}\nchild = os.fork()\n\
             if child == 0:\n a.close(); {within}\nelse:\n b.close(); print(child, flush=True)\n\
             a.recv(1) if child else b.recv(1)\n",
            handle("14, 24, 26")
        ));
        says(child, &["waits for data on a socket of"]);
        let texts = ["waits for data on a socket of", "which waits for data on a socket of"];
        let answer = says(staged.id(), &texts);
        let said = answer["answer"].as_str().expect("an answer").contains("in a circle");
        assert_eq!(said, is_circle, "{within}: {answer:#}");
    }
}

/// TCP gives up what nobody answers, and two "could not continue" all the same.
#[test]
fn a_connection_that_tcp_gives_up_makes_it_no_circle() {
    let directory = directory();
    let path = directory.path().join("s");
    let unix = format!("s = socket.socket(socket.AF_UNIX); s.bind('{}')", path.display());
    let inet = String::from("s = socket.socket(); s.bind(('127.0.0.1', 0))");
    for (bind, is_circle) in [(unix, true), (inet, false)] {
        let (staged, child) = Staged::python(&format!(
            "import os, socket, time\n{bind}\ns.listen(0)\n\
             first = socket.socket(s.family); first.connect(s.getsockname())\n\
             more = socket.socket(s.family)\nr, w = os.pipe()\nchild = os.fork()\n\
             if child == 0:\n os.close(r); more.connect(s.getsockname()); time.sleep(1000)\n\
             os.close(w); print(child, flush=True)\nos.read(r, 1)\n"
        ));
        let seen = says(child, &["waits to be connected to", "the listening socket of"]);
        assert_eq!(links(&seen)[1], i64::from(staged.id()));
        let said = seen["answer"].as_str().expect("an answer").contains("in a circle");
        assert_eq!(said, is_circle, "{seen:#}");
    }
}

/// A word of a barrier, or of anything else, was taken for the id of a mutex's owner: "held by
/// 2 ([kthreadd])".
#[test]
fn a_word_that_is_no_id_of_an_owner_accuses_nobody() {
    for words in ["words[0] = 0x80000000 | 2", "words[0] = 2; words[2] = 2"] {
        let (_staged, pid) = Staged::python(&format!(
            "{FUTEX}{words}\nprint(os.getpid(), flush=True)\nfutex({FUTEX_NUMBER}, words[0])\n"
        ));
        let seen = says(pid, &["a word in shared memory that another process must change"]);
        assert_eq!(seen["chain"][0]["waits_for_pids"], serde_json::json!([]));
    }
}

#[test]
fn a_time_limit_of_a_lock_in_shared_memory_makes_it_no_circle() {
    for (time, is_circle) in [("None", true), ("(ctypes.c_long * 2)(1000, 0)", false)] {
        let (staged, child) = Staged::python(&format!(
            "{FUTEX}r, w = os.pipe()\nchild = os.fork()\n\
             if child == 0: os.close(w); words[2] = os.getpid(); words[0] = 2; os.read(r, 1)\n\
             os.close(r); print(child, flush=True)\n\
             while words[0] == 0: pass\nfutex({FUTEX_NUMBER}, 2, {time})\n"
        ));
        let texts = ["a lock in shared memory, held by", "waits for data or the end of file"];
        let seen = says(staged.id(), &texts);
        assert_eq!(links(&seen)[1], i64::from(child));
        let answer = seen["answer"].as_str().expect("an answer");
        assert_eq!(answer.contains("in a circle"), is_circle, "{answer}");
    }
}

/// CPU time was counted of the first 256 threads only: the process "waited for a signal".
#[test]
fn one_of_many_threads_that_computes_is_enough() {
    let (_staged, pid) = Staged::python(
        "import os, threading, time\nthreading.stack_size(65536)\n\
         def wait(): time.sleep(1000)\n\
         for _ in range(300): threading.Thread(target=wait, daemon=True).start()\n\
        def work():\n while True: pass\n\
         threading.Thread(target=work, daemon=True).start()\n\
         print(os.getpid(), flush=True)\ntime.sleep(1000)\n",
    );
    let mut kind = Value::Null;
    crate::common::until("it computes", || {
        kind = why(pid)["chain"][0]["kind"].clone();
        kind == "computes" || kind == "cpu"
    });
}

/// The thread that waits for a child counted less than the one that waits for it.
#[test]
fn a_child_that_a_thread_waits_for_is_named() {
    let (_staged, pid) = Staged::python(
        "import os, subprocess, threading\n\
         t = threading.Thread(target=lambda: subprocess.call(['sleep', '1000']))\n\
         t.start(); print(os.getpid(), flush=True)\nt.join()\n",
    );
    says(pid, &["waits for the end of its child", "(sleep 1000), which sleeps"]);
}

/// A loop of asyncio that sleeps waited "on a socket whose other end it has open itself".
#[test]
fn a_loop_that_only_sleeps_waits_for_a_time() {
    let (_staged, pid) = Staged::python(
        "import asyncio, os\nasync def main():\n print(os.getpid(), flush=True)\n \
         await asyncio.sleep(1000)\nasyncio.run(main())\n",
    );
    let seen = says(pid, &["waits for a time or an event of another thread or process"]);
    assert_eq!(seen["chain"][0]["kind"], "events");
}
