//! `weir why`: what a process waits for, staged case by case (docs/contracts/why.md).

mod calls;
mod server;
mod ways;

use crate::common::{WEIR, bound, have, python, quota, schema, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Processes that are killed with the test.
struct Staged(Child);

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::CONT);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

impl Staged {
    fn new(mut command: Command) -> Staged {
        command.process_group(0).stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        bound(&child);
        Staged(child)
    }

    /// A text for bash, in this directory.
    fn bash(directory: &Path, text: &str) -> Staged {
        let mut command = Command::new("bash");
        command.args(["-c", text]).current_dir(directory).stdout(Stdio::null());
        Staged::new(command)
    }

    /// A program for python3 that prints a process id.
    fn python(text: &str) -> (Staged, i32) {
        let mut command = Command::new(python());
        command.args(["-c", text]).stdout(Stdio::piped());
        let mut staged = Staged::new(command);
        let mut line = String::new();
        let output = staged.0.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        (staged, line.trim().parse().expect("an id"))
    }

    fn id(&self) -> i32 {
        self.0.id() as i32
    }

    /// The process of this group whose program has this name and whose words hold this text.
    fn find(&self, name: &str, words: &str) -> i32 {
        let mut found = None;
        until(name, || {
            let group = format!("-g{}", self.id());
            let output = Command::new("pgrep").args([&group, "-x", name]).output().expect("pgrep");
            let ids = String::from_utf8_lossy(&output.stdout).into_owned();
            let has = |pid: &i32| {
                let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&text).replace('\0', " ").contains(words)
            };
            found = ids.lines().filter_map(|id| id.parse().ok()).find(has);
            found.is_some()
        });
        found.expect("found")
    }
}

fn why(pid: i32) -> Value {
    let pid = pid.to_string();
    let output = Command::new(WEIR).args(["why", &pid, "--json", "-"]).output().expect("weir");
    match output.status.success() {
        true => schema::check_text("weir.why/1", &output.stdout),
        false => Value::Null,
    }
}

/// Waits until the answer about a process holds all these texts.
fn says(pid: i32, texts: &[&str]) -> Value {
    let mut last = Value::Null;
    let mut fits = false;
    let until_s = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !fits && std::time::Instant::now() < until_s {
        last = why(pid);
        let answer = last["answer"].as_str().unwrap_or_default();
        fits = texts.iter().all(|text| answer.contains(text));
    }
    assert!(fits, "{texts:?} in {last:#}");
    last
}

fn hint(answer: &Value) -> String {
    let hints = answer["hints"].as_array().expect("hints");
    hints.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_left_over_process_keeps_the_end_of_file_away() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "{ sleep 1000 & echo x; } | wc -l > count; :");
    let seen = says(
        staged.find("wc", ""),
        &[
            "waits for data or the end of file from a pipe of",
            "(sleep 1000)",
            "which sleeps: it asked for 1000s",
        ],
    );
    assert_eq!(seen["chain"][0]["kind"], "pipe-in");
    assert_eq!(seen["chain"][1]["kind"], "sleep");
    let wc = staged.find("wc", "").to_string();
    let args = ["why", &wc, "--stack", "--json", "-"];
    let output = Command::new(WEIR).args(args).output().expect("weir");
    let with_stack = schema::check_text("weir.why/1", &output.stdout);
    match with_stack["chain"][0]["kernel_stack"].as_array() {
        Some(frames) => assert!(frames.iter().any(|it| it == "vfs_read"), "{frames:?}"),
        None => eprintln!("SKIPPED in part: stacks in the kernel are not shown to this user"),
    }
}

#[test]
fn who_left_it_is_named() {
    let directory = directory();
    let text = "bash -c 'sleep 1000 & wait' | cat > out; :";
    let staged = Staged::bash(directory.path(), text);
    says(
        staged.find("cat", ""),
        &["(sleep 1000, started by", "(bash -c sleep 1000 & wait)), which sleeps"],
    );
}

#[test]
fn a_reader_that_has_the_writing_end_itself_never_sees_the_end() {
    let text = "import os\nr, w = os.pipe()\nprint(os.getpid(), flush=True)\nos.read(r, 1)";
    let (_staged, pid) = Staged::python(text);
    says(pid, &["whose writing end it has open itself, so the end of file never comes"]);
}

#[test]
fn output_in_a_program_s_own_buffer_is_counted() {
    let directory = directory();
    let text = "(printf 'abc\\nxyz\\nan\\n'; exec sleep 1000) | grep a | cat > out; :";
    let staged = Staged::bash(directory.path(), text);
    let grep = staged.find("grep", "");
    let seen = says(staged.find("cat", ""), &["of ", "(grep a), which waits"]);
    until("the buffer", || hint(&why(grep)).contains("keeps 7 B of output in its own buffer"));
    let seen_hint = hint(&says(seen["pid"].as_i64().expect("an id") as i32, &["(grep a)"]));
    assert!(seen_hint.contains("try grep --line-buffered"), "{seen_hint}");
}

#[test]
fn a_full_pipe_names_its_reader() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "yes | sleep 1000; :");
    let seen = says(
        staged.find("yes", ""),
        &["waits for room in a pipe, which is full: it is read by", "(sleep 1000, started by"],
    );
    assert_eq!(seen["chain"][0]["kind"], "pipe-out");
}

#[test]
fn two_that_fill_each_other_s_pipe_wait_in_a_circle() {
    let text = "import os\na, b = os.pipe(), os.pipe()\nchild = os.fork()\n\
        mine = (a[1], a[0], b[1]) if child == 0 else (b[1], b[0], a[1])\n\
        os.close(mine[1]); os.close(mine[2]) if child == 0 else os.close(a[1])\n\
        if child: print(child, flush=True)\n\
        while True: os.write(mine[0], b'x' * 65536)\n";
    let (_staged, child) = Staged::python(text);
    let seen = says(child, &["they wait in a circle, and none of them can continue"]);
    assert_eq!(
        (&seen["circle_from"], seen["chain"].as_array().map(Vec::len)),
        (&1.into(), Some(2))
    );
}

#[test]
fn who_computes_has_nothing_wrong() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "while :; do :; done");
    // On a full host it may wait for a CPU for most of the time.
    until("it computes", || {
        let kind = why(staged.id())["chain"][0]["kind"].clone();
        kind == "computes" || kind == "cpu"
    });
}

#[test]
fn a_stopped_process_and_the_one_that_waits_for_it() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "bash -c 'kill -STOP $$; echo' | cat > out; :");
    let seen = says(staged.find("cat", ""), &["which is stopped"]);
    assert!(hint(&seen).contains("kill -CONT"), "{seen:#}");
}

#[test]
fn a_background_job_that_reads_its_terminal() {
    if !have(&["script"]) {
        return;
    }
    let directory = directory();
    let inner = "set -m; cat & sleep 1000";
    let text = format!("exec script -qec \"bash -c '{inner}'\" log < /dev/zero > /dev/null");
    let staged = Staged::bash(directory.path(), &text);
    // script starts a session of its own, so its processes are found by their terminal.
    let mut cat = None;
    until("the job", || {
        let log = format!("-P{}", staged.id());
        let of = |args: &[&str]| {
            let output = Command::new("pgrep").args(args).output().expect("pgrep");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().next().and_then(|id| id.parse::<i32>().ok())
        };
        let shell = of(&[&log]);
        let shell = shell.map(|shell| of(&[&format!("-P{shell}"), "-x", "bash"]).unwrap_or(shell));
        cat = shell.and_then(|shell| of(&[&format!("-P{shell}"), "-x", "cat"]));
        cat.is_some()
    });
    let seen = says(cat.expect("a job"), &["is stopped"]);
    let said = seen["answer"].as_str().unwrap_or_default();
    // The kernel does not tell the signal once the shell has heard of the stop.
    assert!(
        said.contains("SIGTTIN: it read from its terminal")
            || said.contains("would read from its terminal in the background"),
        "{said}"
    );
    assert!(hint(&seen).contains("to the foreground of its terminal with fg"), "{seen:#}");
}

#[test]
fn a_locked_file_names_who_holds_it() {
    if !have(&["flock"]) {
        return;
    }
    let directory = directory();
    let text = "flock book sleep 1000 & until ! flock -n book true; do :; done; flock book true; :";
    let staged = Staged::bash(directory.path(), text);
    // Not one of those that only try.
    let waiting = staged.find("flock", "flock book true");
    let seen =
        says(waiting, &["waits for the lock on", "book, held by", "(sleep 1000, started by"]);
    assert_eq!(seen["chain"][0]["kind"], "lock");
}

#[test]
fn a_locked_record_names_who_holds_it() {
    let text = "import fcntl, os, tempfile, time\nf = tempfile.TemporaryFile()\nfcntl.lockf(f, fcntl.LOCK_EX)\n\
        child = os.fork()\n\
        if child == 0: fcntl.lockf(f, fcntl.LOCK_EX)\n\
        print(child, flush=True)\ntime.sleep(1000)\n";
    let (staged, child) = Staged::python(text);
    let seen = says(child, &["waits for the lock on", "held by"]);
    assert_eq!(seen["chain"][1]["pid"].as_i64(), Some(staged.id().into()));
}

#[test]
fn a_shell_waits_for_its_child() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "sleep 1000; :");
    let seen = says(staged.id(), &["waits for the end of its child", "(sleep 1000)"]);
    assert_eq!(seen["chain"][0]["kind"], "child");
}

#[test]
fn a_shell_that_waits_for_weir_is_in_no_circle() {
    // The shell keeps the FIFO open, as does what it starts, and cat is a child of it too.
    let ask = format!("'{WEIR}' why $! --json - > said");
    for ask in [ask.clone(), format!("bash -c \"{ask}; true\"")] {
        let ask = ask.replace("$!", "$cat");
        let text = format!(
            "mkfifo ff; exec 8<>ff; cat ff & export cat=$!; touch said
             until grep -q pipe-in said; do {ask}; done; mv said done; sleep 1000; :"
        );
        let directory = directory();
        let _staged = Staged::bash(directory.path(), &text);
        let done = directory.path().join("done");
        until("an answer", || done.exists());
        let seen = schema::check_text("weir.why/1", &std::fs::read(done).expect("read"));
        let chain = seen["chain"].as_array().expect("a chain");
        let last = chain.last().expect("a link");
        assert!(seen["circle_from"].is_null(), "{seen:#}");
        assert!(chain.iter().all(|link| link["command"] != "weir"), "{seen:#}");
        assert_eq!(last["text"], "waits for the end of a child, most likely of weir itself");
    }
}

#[test]
fn a_socket_names_the_process_behind_it() {
    let text = "import os, socket, time\na, b = socket.socketpair()\nchild = os.fork()\n\
        if child == 0: b.close(); a.recv(1)\n\
        a.close()\nprint(child, flush=True)\ntime.sleep(1000)\n";
    let (staged, child) = Staged::python(text);
    let seen = says(child, &["waits for data on", "sleeps"]);
    assert_eq!(seen["chain"][1]["pid"].as_i64(), Some(staged.id().into()));
    assert_eq!(seen["chain"][0]["kind"], "socket");
}

/// The child was once said to wait for itself, since its parent has both ends too.
#[test]
fn of_two_that_have_both_ends_of_a_socket_the_other_one_is_the_peer() {
    let text = "import os, socket, time\na, b = socket.socketpair()\nchild = os.fork()\n\
        if child == 0: a.recv(1)\n\
        print(child, flush=True)\ntime.sleep(1000)\n";
    let (staged, child) = Staged::python(text);
    let seen = says(child, &["waits for data on", "sleeps"]);
    assert_eq!(seen["chain"][1]["pid"].as_i64(), Some(staged.id().into()));
}

/// The process was once said to wait for itself, in a circle.
#[test]
fn who_has_both_ends_of_a_socket_is_not_its_own_peer() {
    let text = "import os, socket\na, b = socket.socketpair()\n\
        print(os.getpid(), flush=True)\na.recv(1)\n";
    let (_staged, pid) = Staged::python(text);
    let seen = says(pid, &["waits for data on a socket whose other end it has open itself"]);
    assert!(seen["circle_from"].is_null(), "{seen:#}");
    assert_eq!(seen["chain"][0]["waits_for_pids"], serde_json::json!([]));
}

#[test]
fn a_server_that_nobody_asks() {
    let text = "import os, socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\n\
        print(os.getpid(), flush=True)\ns.accept()\n";
    let (_staged, pid) = Staged::python(text);
    says(pid, &["waits for a connection to 127.0.0.1:", "nobody asks for its service"]);
}

#[test]
fn a_zombie_names_its_parent() {
    let text = "import os, time\nchild = os.fork()\nif child == 0: os._exit(0)\n\
        print(child, flush=True)\ntime.sleep(1000)\n";
    let (staged, child) = Staged::python(text);
    let seen = says(child, &["has ended (a zombie): its status was not collected by its parent"]);
    assert_eq!(seen["chain"][1]["pid"].as_i64(), Some(staged.id().into()));
}

#[test]
fn a_fifo_that_nobody_opens() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "mkfifo line; cat line; :");
    says(
        staged.find("cat", ""),
        &["waits until another process opens the other end of the FIFO line"],
    );
}

#[test]
fn a_thread_that_waits_for_another() {
    let text = "import os, threading\nlock = threading.Lock()\nlock.acquire()\n\
        print(os.getpid(), flush=True)\nlock.acquire()\n";
    let (_staged, pid) = Staged::python(text);
    let seen = says(pid, &["waits for"]);
    let kind = seen["chain"][0]["kind"].as_str();
    assert!(kind == Some("threads") || kind == Some("lock"), "{seen:#}");
}

#[test]
fn a_wait_in_poll_and_in_epoll() {
    for wait in ["p = select.poll(); p.register(r, 1)", "p = select.epoll(); p.register(r, 1)"] {
        let text = format!(
            "import os, select, time\nr, w = os.pipe()\nchild = os.fork()\n\
             if child == 0:\n os.close(w); {wait}\n p.poll()\n\
             os.close(r); print(child, flush=True)\ntime.sleep(1000)\n"
        );
        let (staged, child) = Staged::python(&text);
        let seen = says(child, &["waits for data or the end of file from a pipe of"]);
        assert_eq!(seen["chain"][1]["pid"].as_i64(), Some(staged.id().into()));
    }
}

#[test]
fn a_timer_is_no_process() {
    let directory = directory();
    let staged = Staged::bash(directory.path(), "exec sleep 77");
    says(staged.id(), &["(sleep 77) sleeps: it asked for 77"]);
}

#[test]
fn a_debugger_is_named() {
    if !have(&["gdb"]) {
        return;
    }
    let directory = directory();
    let text = "exec gdb -q -nx -batch -ex starti -ex 'shell sleep 1000' /bin/true";
    let staged = Staged::bash(directory.path(), text);
    let mut child = None;
    until("the debugged", || {
        let id = staged.id().to_string();
        let output = Command::new("pgrep").args(["-P", &id, "-x", "true"]).output().expect("pgrep");
        child = String::from_utf8_lossy(&output.stdout).trim().parse::<i32>().ok();
        child.is_some() || !Path::new(&format!("/proc/{id}")).exists()
    });
    let Some(child) = child else {
        eprintln!("SKIPPED: gdb could not stop /bin/true");
        return;
    };
    says(child, &["is stopped by its debugger", "(gdb -q"]);
}

#[test]
fn a_used_up_quota_is_the_reason() {
    let Some(group) = quota::Group::make() else {
        eprintln!("SKIPPED: no control group can be made here");
        return;
    };
    let directory = directory();
    let staged = Staged::bash(directory.path(), "while :; do :; done");
    group.add(staged.id());
    let seen = says(staged.id(), &["has used up the CPU quota of its control group, 0.2 CPUs"]);
    assert_eq!(seen["chain"][0]["kind"], "quota");
}

#[test]
fn processes_of_others_are_told_apart_from_those_that_wait() {
    let own = rustix::process::geteuid().is_root();
    if !own || !have(&["setpriv"]) {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let directory = directory();
    let staged = Staged::bash(directory.path(), "exec sleep 1000");
    // The file of the test may be where another user cannot read.
    let copy = directory.path().join("weir");
    crate::common::copy_program(WEIR, &copy);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    for path in [directory.path(), copy.as_path()] {
        std::fs::set_permissions(path, Clone::clone(&mode)).expect("permissions");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(&copy).args(["why", &staged.id().to_string()]);
    let output = command.output().expect("setpriv");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("may not be inspected: it belongs to user 0"), "{said}");
    assert!(said.contains("root may inspect it"), "{said}");
}

#[test]
fn bad_ids_are_clear_errors() {
    let run = |pid: &str| {
        let output = Command::new(WEIR).args(["why", pid]).output().expect("weir");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run("2147483646");
    assert_eq!(
        (code, said.as_str()),
        (Some(1), "weir: cannot look at process 2147483646: it does not exist\n")
    );
    for bad in ["0", "-3", "99999999999"] {
        assert_eq!(run(bad).0, Some(2), "{bad}");
    }
    let (_, said) = run("0");
    assert!(said.contains("'0' is not a process id"), "{said}");
    let missing = "weir: cannot look at 'no-such-name': no process has this name, or this in \
                   its command line\n";
    assert_eq!(run("no-such-name"), (Some(1), missing.to_owned()));
}

#[test]
fn a_name_stands_for_the_only_process_that_has_it() {
    let directory = directory();
    let name = format!("slp{}", std::process::id());
    let program = directory.path().join(&name);
    let sleep = weir_measure::programs::find_program("sleep".as_ref()).expect("sleep");
    std::os::unix::fs::symlink(sleep, &program).expect("linked");
    let start = || {
        let mut command = Command::new(&program);
        command.arg("1000").stdout(Stdio::null());
        Staged::new(command)
    };
    let run = |args: &[&str]| {
        let output = Command::new(WEIR).arg("why").args(args).output().expect("weir");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let first = start();
    let (code, said) = run(&[&name]);
    assert!(
        code == Some(0) && said.starts_with(&format!("{} ({name} 1000)", first.id())),
        "{said}"
    );
    assert_eq!(run(&["-p", &first.id().to_string()]), (Some(0), said));
    let second = start();
    let (code, said) = run(&[&name]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("2 processes have this name; give the id of one:\n"), "{said}");
    let line = format!("{}  {} 1000\n", second.id(), program.display());
    assert!(said.lines().count() == 3 && said.contains(&line), "{said}");
    drop(second);
    let (code, said) = run(&[&format!("{name} 1000")]);
    assert!(code == Some(0) && said.starts_with(&format!("{} ", first.id())), "{said}");
}

/// Of a job under `timeout`, which has its words too, two processes were listed and nothing was said.
#[test]
fn a_job_is_found_by_its_words_whatever_runs_it() {
    let directory = directory();
    let script = directory.path().join("job.sh");
    std::fs::write(&script, "sleep 1000; :\n").expect("written");
    let job = format!("bash {}", script.display());
    let staged = Staged::bash(directory.path(), &format!("timeout --foreground 900 {job}; :"));
    staged.find("sleep", "1000");
    let output = Command::new(WEIR).args(["why", &job]).output().expect("weir");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains(&format!(" ({job}) waits for")), "{said}");
    assert!(said.contains(" (sleep 1000)") && !said.contains("timeout"), "{said}");
}

/// Of head, which used 8 % of a CPU and waited for gzip else, it was said that it computes, and that
/// stdbuf would help.
#[test]
fn in_a_pipeline_that_flows_the_one_that_holds_it_up_is_found() {
    if !have(&["gzip"]) {
        eprintln!("SKIPPED: gzip is not installed");
        return;
    }
    let directory = directory();
    let staged = Staged::bash(directory.path(), "yes | head -c 1T | gzip -9 > /dev/null; :");
    let (head, gzip) = (staged.find("head", ""), staged.find("gzip", ""));
    let mut seen = Value::Null;
    until("gzip computes", || {
        seen = why(head);
        let last = seen["chain"].as_array().and_then(|chain| chain.last()).cloned();
        let last = last.unwrap_or_default();
        last["pid"] == gzip && (last["kind"] == "computes" || last["kind"] == "cpu")
    });
    assert_eq!(seen["chain"][0]["kind"], "pipe-out", "{seen:#}");
    assert!(seen["chain"][0]["share"].as_f64() > Some(0.3), "{seen:#}");
    assert_eq!(hint(&seen), "", "nobody is silent");
}

/// python3 waited for its child, that for room, and the advice was python -u.
#[test]
fn buffers_are_no_matter_of_who_waits_for_something_else() {
    let text = "import os, subprocess\nchild = subprocess.Popen(['seq', '200000'], stdout=subprocess.PIPE)\n\
                os.write(1, b'%d\\n' % os.getpid())\nchild.wait()\n";
    let (staged, pid) = Staged::python(text);
    let seen = says(pid, &["waits for the end of its child", "they wait in a circle"]);
    assert_eq!(hint(&seen), "", "{seen:#}");
    drop(staged);
}

/// A program waited for the queue of a worker that slept: "it may keep output in its own buffer: try
/// python -u", though its standard output was another pipe.
#[test]
fn what_is_not_its_standard_output_is_in_no_buffer_of_it() {
    let text = "import os, subprocess\nreads, writes = os.pipe()\nos.set_inheritable(writes, True)\n\
                child = subprocess.Popen(['python3', '-c', 'import time; time.sleep(60)'], \
                executable=__import__('sys').executable, pass_fds=[writes], stdout=subprocess.PIPE)\n\
                os.close(writes)\nos.write(1, b'%d\\n' % os.getpid())\nos.read(reads, 1)\n";
    let (staged, pid) = Staged::python(text);
    let seen = says(pid, &["waits for data or the end of file from a pipe of", "which sleeps"]);
    assert_eq!(hint(&seen), "", "{seen:#}");
    drop(staged);
}

#[test]
fn two_that_open_each_other_s_fifo_wait_in_a_circle() {
    let directory = directory();
    let text = "mkfifo f1 f2; cat < f1 > f2 & cat < f2 > f1 & wait";
    let staged = Staged::bash(directory.path(), text);
    let seen = says(
        staged.id(),
        &[
            "opens the other end of the FIFO f1, perhaps",
            "they wait in a circle, if each is to open the FIFO of the other",
        ],
    );
    assert_eq!(seen["circle_from"], 2, "{seen:#}");
}

/// A FIFO that its own words do not name is none of its circle.
#[test]
fn who_opens_a_fifo_of_another_command_is_no_part_of_a_circle() {
    let directory = directory();
    let text = "mkfifo f1 f2; bash -c 'cat < f1 | cat' & bash -c 'cat < f2 | cat' & wait";
    let staged = Staged::bash(directory.path(), text);
    let seen = says(staged.id(), &["opens the other end of the FIFO f"]);
    assert_eq!(seen["circle_from"], Value::Null, "{seen:#}");
    assert!(!seen["answer"].as_str().unwrap_or_default().contains("perhaps"), "{seen:#}");
}

#[test]
fn threads_that_all_wait_are_named() {
    let text = "import os, threading, time\na, b = threading.Lock(), threading.Lock()\n\
                met = threading.Barrier(2)\n\
                def take(one, other):\n with one:\n  met.wait()\n  other.acquire()\n\
                all = [threading.Thread(target=take, args=it) for it in [(a, b), (b, a)]]\n\
                for it in all: it.start()\nprint(os.getpid(), flush=True)\nfor it in all: it.join()\n";
    let (_staged, pid) = Staged::python(text);
    let seen = says(pid, &["and so do all of its 3 threads: "]);
    let answer = seen["answer"].as_str().expect("a text");
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads") {
        let task = task.expect("a thread").file_name().into_string().expect("a number");
        assert!(answer.contains(&format!("{task} (python")), "{task} in {answer}");
    }
}

/// A program in C waits for the end of its threads by a word that the kernel changes, and not by one
/// of its own: of two threads with each other's lock, for which the first one waited, none was named.
#[test]
fn a_thread_that_waits_for_the_end_of_another_is_one_of_those_that_wait() {
    let text = "import ctypes, os\nc = ctypes.CDLL(None)\nempty = ctypes.create_string_buffer(64)\n\
                one = ctypes.c_ulong()\n\
                c.pthread_create(ctypes.byref(one), None, c.sem_wait, empty)\n\
                print(os.getpid(), flush=True)\nc.pthread_join(one, None)\n";
    let (_staged, pid) = Staged::python(text);
    let seen = says(pid, &["and so do all of its 2 threads: ", "for the end of "]);
    let answer = seen["answer"].as_str().expect("a text");
    let of = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let ids = of.map(|id| id.expect("a thread").file_name().into_string().expect("a number"));
    let other = ids.filter(|id| *id != pid.to_string()).collect::<Vec<_>>().concat();
    assert!(answer.contains(&format!(" for the end of {other}")), "{other} in {answer}");
}

#[test]
fn who_is_frozen_is_told_by_which_group_and_how_it_is_thawed() {
    let name = format!("weir-test-{}", std::process::id());
    let kinds = [
        ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
        ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
    ];
    let make = |(base, file, ..): &(&str, &str, &str, &str)| {
        let group = Path::new(base).join(&name);
        std::fs::create_dir(&group).is_ok().then_some(())?;
        let is_there = group.join(file).exists();
        if !is_there {
            let _ = std::fs::remove_dir(&group);
        }
        is_there.then_some(group)
    };
    let found = kinds.iter().find_map(|kind| Some((make(kind)?, kind)));
    let Some((group, (_, file, freeze, thaw))) = found else {
        eprintln!("SKIPPED: no control group can be made here");
        return;
    };
    let staged = Staged::bash(Path::new("/"), "exec sleep 1000");
    std::fs::write(group.join("cgroup.procs"), staged.id().to_string()).expect("moved");
    std::fs::write(group.join(file), freeze).expect("frozen");
    let seen = std::panic::catch_unwind(|| {
        says(staged.id(), &[&format!("is frozen by its control group {}", group.display())])
    });
    std::fs::write(group.join(file), thaw).expect("thawed");
    drop(staged);
    until("the group is empty", || std::fs::remove_dir(&group).is_ok());
    let line = format!("echo {thaw} > {} lets it continue", group.join(file).display());
    assert_eq!(hint(&seen.expect("an answer")), line);
}

#[test]
fn who_is_traced_is_told_so() {
    if !have(&["strace"]) {
        eprintln!("SKIPPED: strace is not installed");
        return;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "sleep", "1000"]).stdout(Stdio::null());
    let staged = Staged::new(command);
    let sleep = staged.find("sleep", "");
    let mut said = String::new();
    until("it is traced", || {
        said = hint(&why(sleep));
        said.contains("is traced by")
    });
    assert!(said.contains(&format!("{} (strace", staged.id())), "{said}");
}

#[test]
fn the_watched_process_is_not_disturbed() {
    // A pipe of which weir kept an end would not end.
    let directory = directory();
    let mut command = Command::new("bash");
    command.args(["-c", "cat; echo end"]).current_dir(directory.path());
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash");
    bound(&child);
    (0..3).for_each(|_| drop(why(child.id() as i32)));
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.take().expect("output").read_to_string(&mut text).expect("read");
    assert_eq!((text.as_str(), child.wait().expect("waited").code()), ("end\n", Some(0)));
}
