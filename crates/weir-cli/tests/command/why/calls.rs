//! Waits that are told apart by the call, and by what its arguments name.

use super::{Staged, directory, says, why};
use crate::common::{WEIR, have, until};
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
fn a_process_continues_after_its_first_thread() {
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

/// A set of epoll in another one was "eventpoll", and who asks for no data seemed to sleep.
#[test]
fn sets_in_sets_and_hang_ups_are_what_they_wait_for() {
    let child = "import os, select, time\nr, w = os.pipe()\nchild = os.fork()\n\
        if child == 0:\n os.close(r); time.sleep(1000)\nos.close(w)\n";
    let (staged, writer) = Staged::python(&format!(
        "{child}a = select.epoll(); a.register(r, select.EPOLLIN)\n\
         b = select.epoll(); b.register(a.fileno(), select.EPOLLIN)\n\
         print(child, flush=True)\nb.poll()\n"
    ));
    let seen = says(staged.id(), &["waits for data or the end of file from a pipe of"]);
    assert_eq!(second(&seen), Some(writer.into()), "{seen:#}");
    for events in ["0", "select.POLLPRI"] {
        let (staged, _) = Staged::python(&format!(
            "{child}p = select.poll(); p.register(r, {events})\n\
             print(child, flush=True)\np.poll()\n"
        ));
        let seen = says(staged.id(), &["waits for a hang-up or a special event"]);
        assert_eq!(seen["chain"][0]["kind"], "events");
    }
}

/// A page that another process has to bring, and a lease, were once waits for the disk.
#[test]
fn what_another_process_has_to_do_is_no_disk() {
    // Flags: USER_MODE_ONLY, which needs no right. Then UFFDIO_API and UFFDIO_REGISTER.
    let fault = "import fcntl, struct, sys\nf = c.syscall(323, 1)\n\
        if f < 0: print(0, flush=True); sys.exit()\n\
        fcntl.ioctl(f, 0xc018aa3f, bytearray(struct.pack('QQQ', 0xaa, 0, 0)))\n\
        c.mmap.restype = ctypes.c_void_p\nsize = ctypes.c_size_t(1 << 20)\n\
        at = c.mmap(None, size, 3, 0x22, -1, ctypes.c_long(0))\n\
        fcntl.ioctl(f, 0xc020aa00, bytearray(struct.pack('QQQQ', at, 1 << 20, 1, 0)))\n\
        print(os.getpid(), flush=True)\nctypes.string_at(at, 1)\n";
    if cfg!(target_arch = "x86_64") {
        let (_staged, pid) = Staged::python(&format!("{C}{fault}"));
        match pid {
            0 => eprintln!("SKIPPED: userfaultfd is not allowed here"),
            pid => {
                let seen = says(pid, &["waits for a page of its memory", "(userfaultfd)"]);
                assert_eq!(seen["chain"][0]["kind"], "events");
            }
        }
    }
    let directory = directory();
    let path = directory.path().join("leased");
    std::fs::write(&path, "").expect("written");
    let (staged, _) = Staged::python(&format!(
        "import fcntl, os, signal, time\nr, w = os.pipe()\nchild = os.fork()\n\
         if child == 0:\n signal.signal(signal.SIGIO, signal.SIG_IGN)\n \
         f = os.open('{0}', os.O_RDWR); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n \
         os.write(w, b'x'); time.sleep(1000)\n\
         os.read(r, 1); print(child, flush=True)\nopen('{0}')\n",
        path.display()
    ));
    let seen = says(staged.id(), &["waits for /"]);
    assert!(!seen["answer"].as_str().unwrap_or_default().contains("disk"), "{seen:#}");
}

/// A FIFO whose name counts from a directory that is open was once a file on a disk.
#[test]
fn a_fifo_in_a_directory_that_is_open_waits_for_its_other_end() {
    let opens = ["os.open('f', os.O_RDONLY, dir_fd=d)", "c.syscall(437, d, b'f', bytes(24), 24)"];
    for open in opens {
        let (_staged, pid) = Staged::python(&format!(
            "{C}import tempfile\nt = tempfile.TemporaryDirectory(); os.mkfifo(t.name + '/f')\n\
             d = os.open(t.name, os.O_RDONLY)\nprint(os.getpid(), flush=True)\n{open}\n"
        ));
        let seen = says(pid, &["until another process opens the other end of the FIFO f"]);
        assert_eq!(seen["chain"][0]["kind"], "open");
    }
}

/// Whatever an event loop waited for, it was said to wait for the pipe by which it wakes itself.
#[test]
fn a_loop_does_not_wait_for_the_pipe_that_wakes_it() {
    let python = "import os, select, socket, threading, time\nr, w = os.pipe()\n\
        e = select.epoll(); e.register(r, select.EPOLLIN)\n";
    let (staged, _) = Staged::python(&format!(
        "{python}s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
         e.register(s, select.EPOLLIN); print(os.getpid(), flush=True)\ne.poll()\n"
    ));
    says(staged.id(), &["waits for a connection to 127.0.0.1:", "nobody asks for its service"]);
    let (staged, _) = Staged::python(&format!(
        "{python}e.register(os.eventfd(0), select.EPOLLIN)\n\
         print(os.getpid(), flush=True)\ne.poll()\n"
    ));
    says(staged.id(), &["waits for an event of another thread or process"]);
    // Nor does a thread that reads from it decide for the others.
    let (staged, _) = Staged::python(&format!(
        "{python}s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
         threading.Thread(target=lambda: os.read(r, 1)).start()\n\
         print(os.getpid(), flush=True)\ns.accept()\n"
    ));
    says(staged.id(), &["waits for a connection to 127.0.0.1:", "nobody asks for its service"]);
}

/// After a stop a sleeper waited "in the kernel".
#[test]
fn a_sleep_continues_after_a_stop() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "exec sleep 1000");
    says(staged.id(), &["sleeps: it asked for 1000s"]);
    for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
        let pid = rustix::process::Pid::from_raw(staged.id()).expect("an id");
        rustix::process::kill_process(pid, signal).expect("sent");
        let state = if signal == rustix::process::Signal::STOP { 'T' } else { 'S' };
        until("it is so", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", staged.id()));
            stat.is_ok_and(|text| text.contains(&format!(") {state} ")))
        });
    }
    says(staged.id(), &["sleeps: it asked for 1000s"]);
}

/// Two that waited for each other "could not continue", although one had a thread, a descriptor or
/// a time that let it.
#[test]
fn who_has_a_way_out_is_in_no_circle() {
    let poll = "p = select.poll(); p.register(b, 1)";
    let waits = [
        ("os.read(b, 1)".to_owned(), true),
        (format!("{poll}; p.register(x, 4); p.poll()"), true),
        (
            "threading.Thread(target=lambda: time.sleep(1000)).start(); os.read(b, 1)".to_owned(),
            false,
        ),
        (format!("{poll}; p.poll(1000000)"), false),
        ("select.select([b], [], [], 1000)".to_owned(), false),
        (format!("s = socket.socket(); s.listen(); {poll}; p.register(s, 1); p.poll()"), false),
    ];
    for (wait, circle) in waits {
        let (staged, child) = Staged::python(&format!(
            "import os, select, socket, threading, time\na, w = os.pipe(); b, x = os.pipe()\n\
             z, x2 = os.pipe()\nos.set_blocking(x2, False)\n\
             child = os.fork()\nif child == 0:\n os.close(a); os.close(x); os.close(z); x = x2\n \
             try:\n  while True: os.write(x, b'x' * 65536)\n except BlockingIOError: pass\n \
             {wait}\n time.sleep(1000)\n\
             os.close(w); os.close(b); os.close(x2); print(child, flush=True)\nos.read(a, 1)\n"
        ));
        let mut texts =
            vec![format!("of {child} (python3"), format!("of {} (python3", staged.id())];
        texts.extend(circle.then(|| "they wait in a circle".to_owned()));
        let seen = says(staged.id(), &texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(seen["circle_from"].is_null(), !circle, "{wait}: {seen:#}");
    }
}

/// weir, which had borrowed the socket for its look, was named as the peer.
#[test]
fn a_socket_that_is_connected_to_itself_has_itself_as_its_peer() {
    let (staged, _) = Staged::python(
        "import os, socket\ns = socket.socket(); s.bind(('127.0.0.1', 0))\n\
         s.connect(s.getsockname()); print(os.getpid(), flush=True)\ns.recv(1)\n",
    );
    let seen =
        says(staged.id(), &["waits for data on a socket whose other end it has open itself"]);
    assert_eq!(seen["chain"].as_array().map(Vec::len), Some(1), "{seen:#}");
}

/// A server whose handler slept "waits for a connection: nobody asks for its service", said its client.
#[test]
fn a_server_that_somebody_asks_does_not_wait_for_clients() {
    let text = |answers: &str| {
        format!(
            "import os, select, socket, threading, time\n\
             s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\n\
             child = os.fork()\n\
             if child == 0:\n    c = socket.create_connection(s.getsockname())\n    s.close()\n    \
             c.sendall(b'?')\n    c.recv(1)\n\
             print(child, flush=True)\nc, _ = s.accept()\nc.recv(1)\n{answers}\n"
        )
    };
    let thread = "threading.Thread(target=time.sleep, args=[1000]).start()\ns.accept()";
    let (_staged, child) = Staged::python(&text(thread));
    says(child, &["waits for data on its socket to 127.0.0.1:", "the socket of", "which sleeps"]);
    let turns = "e = select.epoll()\nfor it in s, c: e.register(it, select.EPOLLIN)\ne.poll()";
    let (staged, child) = Staged::python(&text(turns));
    says(child, &["the socket of", "which has not answered"]);
    says(staged.id(), &["nobody asks for its service"]);
}

/// PostgreSQL's processes wait for a signal, and beside that for a pipe which tells of the end of their parent: that
/// one was taken for what they wait for.
#[test]
fn a_pipe_beside_something_else_is_not_what_a_process_waits_for() {
    let text = format!(
        "{C}import select\nr, w = os.pipe()\nt = c.timerfd_create(1, 0)\nchild = os.fork()\n\
         if child == 0:\n    os.close(w)\n    p = select.poll()\n    p.register(r, 1)\n    \
         p.register(t, 1)\n    p.poll()\n\
         print(child, flush=True)\ntime.sleep(1000)\n"
    );
    let (_staged, child) = Staged::python(&text);
    let seen = says(child, &["waits for a timer or a pipe"]);
    assert_eq!(second(&seen), None, "{seen:#}");
}

/// SQLite tries again until a lock is free: "sleeps: it asked for 0.10s". A program in Python that
/// did so slept "until a time or a signal", since that is what Python asks for.
#[test]
fn who_sleeps_until_a_lock_is_free_names_its_holder() {
    let until_a_time = "(c.clock_gettime(1, t), c.clock_nanosleep(1, 1, later(t), None))";
    for sleep in ["c.usleep(100000)", until_a_time] {
        let text = format!(
            "{C}import fcntl, tempfile\nt = (ctypes.c_long * 2)()\n\
             def later(t): t[0] += 1; return t\n\
             f = tempfile.NamedTemporaryFile()\nchild = os.fork()\n\
             if child == 0:\n    g = open(f.name)\n    f.close()\n    while True: {sleep}\n\
             fcntl.lockf(f, fcntl.LOCK_EX)\nprint(child, flush=True)\ntime.sleep(1000)\n"
        );
        let (staged, child) = Staged::python(&text);
        let seen = says(child, &["polls, most likely for the lock on", "held by"]);
        assert_eq!(
            (second(&seen), &seen["chain"][0]["kind"]),
            (Some(staged.id().into()), &"lock".into())
        );
    }
}

/// In a container, `curl` waited for itself and not for its name server: of a pair of sockets in
/// another network namespace nothing tells who has the other end.
#[test]
fn a_pair_in_another_network_namespace_is_no_other_process() {
    // Without root there is no such namespace, and the pair is known.
    let text = format!(
        "{C}import socket, threading\nc.unshare(0x40000000)\na, b = socket.socketpair()\n\
         s = socket.socket(); s.bind(('', 0)); s.listen()\n\
         threading.Thread(target=s.accept).start()\nprint(os.getpid(), flush=True)\na.recv(1)\n"
    );
    let (_staged, pid) = Staged::python(&text);
    says(pid, &["waits for a connection to 0.0.0.0:"]);
}

/// Who had a connection that nobody had taken waited for data "on 127.0.0.1:8080", and for nobody.
#[test]
fn who_does_not_take_a_connection_that_is_made_is_waited_for() {
    let (staged, child) = Staged::python(
        "import os, socket, time\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
         child = os.fork()\n\
         if child == 0:\n    one = socket.create_connection(s.getsockname())\n    s.close()\n    \
         one.send(b'x')\n    one.recv(9)\n\
         print(child, flush=True)\ntime.sleep(1000)\n",
    );
    let seen = says(child, &["waits for data on its socket to 127.0.0.1:", "which sleeps"]);
    assert_eq!(second(&seen), Some(staged.id().into()), "{seen:#}");
}
