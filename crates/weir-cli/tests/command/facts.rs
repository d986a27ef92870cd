//! What `weir run` measures besides times: bytes, sums of CPU time, started processes, the host,
//! quotas, peers. Each is known here by construction.

use crate::common::killed::Killed;
use crate::common::{Ran, WEIR, alone, have, pipeline, python, quota, weir_run_in, write_program};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// Computes until it has used this much CPU time, and then writes a line.
fn work(cpu_s: f64) -> String {
    format!("perl -e 'while((times)[0]+(times)[1]<{cpu_s}){{$x++ for 1..1000}}print \"done\\n\"'")
}

fn evidence<'a>(ran: &'a Ran, index: usize, name: &str) -> &'a str {
    ran.json["stages"][index - 1]["evidence"][name].as_str().unwrap_or("none")
}

#[test]
fn what_a_stage_read_is_not_what_came_through_its_pipe() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("numbers");
    let text: String = (0..300_000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(&file, &text).expect("written");
    // The figure of the pipe, 21 bytes, once stood for everything that grep read, and was called
    // exact.
    let ran = pipeline(&format!("seq 10 | grep -c -f - {}", file.display()));
    assert_eq!(evidence(&ran, 2, "bytes"), "exact");
    assert!(ran.stage(2, "bytes_in") as usize >= text.len(), "{}", ran.json);
    assert_eq!(ran.stage(2, "pipe_bytes_in") as u64, 21);
    assert_ne!(evidence(&ran, 2, "pipe_bytes"), "exact");
    assert!(ran.json["stages"][1]["pipe_bytes_out"].is_null());
}

/// The verdict was "no single bottleneck", and a note at the end said that some process had the pipe open.
#[test]
fn a_process_left_running_that_has_the_pipe_open_is_the_verdict() {
    let left = |text: &str| pipeline(text).json;
    let report = left("bash -c 'sleep 1.5 & echo hi' | cat");
    let found = &report["left_open"][0];
    assert_eq!((&found["stage"], &found["command"]), (&1.into(), &"sleep 1.5".into()), "{found}");
    let said = report["verdict"]["text"].as_str().expect("a text");
    let name = format!("held up by sleep 1.5 (PID {}), left running by stage 1", found["pid"]);
    assert!(said.starts_with(&name), "{said}");
    assert!(found["waited_s"].as_f64() > Some(0.5), "{found}");
    // Of two, the first to end was named.
    let two = left("bash -c 'sleep 0.7 & sleep 1.5 & echo hi' | cat");
    assert_eq!(two["left_open"][0]["command"], "sleep 1.5", "{two}");
    for text in
        ["bash -c 'sleep 1.5 > /dev/null & echo hi' | cat", "bash -c 'sleep 1; echo hi' | cat"]
    {
        assert_eq!(left(text)["left_open"], serde_json::json!([]), "{text}");
    }
}

#[test]
fn what_tee_writes_into_a_file_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("copy");
    let ran = pipeline(&format!("head -c 5000000 /dev/zero | tee {} | wc -c", copy.display()));
    assert_eq!(ran.stdout(), "5000000\n");
    assert_eq!(ran.stage(2, "bytes_out") as u64, 10_000_000);
    assert_eq!(evidence(&ran, 2, "bytes"), "exact");
    let crossed = ran.stage(2, "pipe_bytes_out") as u64;
    assert!((5_000_000..5_300_000).contains(&crossed), "{crossed}");
}

#[test]
fn what_is_moved_without_being_counted_is_not_called_exact() {
    let _alone = alone();
    // While there is no backlog, weir buffer moves bytes by splice, which the kernel does not
    // count.
    let ran = pipeline(&format!("head -c 400000000 /dev/zero | {WEIR} buffer -q | wc -c"));
    assert_eq!(ran.stdout(), "400000000\n");
    // The counts of its neighbours show what the kernel did not count.
    assert_eq!(evidence(&ran, 2, "bytes"), "estimated", "{}", ran.json);
    for (stage, side) in [
        (2, "bytes_in"),
        (2, "bytes_out"),
        (2, "pipe_bytes_in"),
        (2, "pipe_bytes_out"),
        (3, "pipe_bytes_in"),
    ] {
        let crossed = ran.stage(stage, side) as u64;
        assert!((400_000_000..400_300_000).contains(&crossed), "{side} {crossed}");
    }
    assert_eq!(evidence(&ran, 2, "pipe_bytes"), "upper bound");
}

#[test]
fn what_nobody_waits_for_is_added_and_called_a_lower_bound() {
    let _alone = alone();
    // bash becomes cat, which waits for no process substitution, so the kernel's sums lack it.
    let ran = pipeline(&format!("cat <({}) | cat", work(0.6)));
    assert_eq!(ran.stdout(), "done\n");
    assert_eq!(evidence(&ran, 1, "cpu_sums"), "lower bound");
    assert_eq!(evidence(&ran, 1, "bytes"), "lower bound");
    let sums = ran.stage(1, "user_s") + ran.stage(1, "sys_s");
    assert!(sums > 0.3, "{sums}: {}", ran.json);
    // A process that starts right before its shell ends is never seen, but it keeps the pipe open.
    let ran = pipeline("sh -c 'sleep 0.3 & exit 0' | cat");
    assert_eq!(evidence(&ran, 1, "cpu_sums"), "lower bound", "{}", ran.json);
    // The sums hold everything that the shell waited for.
    let ran = pipeline(&format!("({}; :) | cat", work(0.3)));
    assert_eq!(evidence(&ran, 1, "cpu_sums"), "exact");
    assert!(ran.stage(1, "user_s") + ran.stage(1, "sys_s") >= 0.3, "{}", ran.json);
}

#[test]
fn a_partition_has_no_more_cpu_time_than_was_used() {
    let _alone = alone();
    // A process that wakes up for microseconds at a time is often seen as just runnable.
    let text = "(perl -e 'select undef,undef,undef,.0003 for 1..2500'; :) | cat";
    let ran = pipeline(text);
    assert_eq!(evidence(&ran, 1, "cpu_sums"), "exact");
    let sums = ran.stage(1, "user_s") + ran.stage(1, "sys_s");
    assert!(ran.stage(1, "cpu_s") <= sums + 1e-6, "{}", ran.json);
}

#[test]
fn a_compressor_with_a_redirection_is_one_task_and_has_its_own_name() {
    let _alone = alone();
    if !have(&["bash", "gzip"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("x.gz");
    let ran = pipeline(&format!("head -c 30000000 /dev/urandom | gzip -1 > {}", file.display()));
    assert_eq!(ran.json["stages"][1]["program"], "gzip", "{}", ran.json);
    assert_eq!(ran.stage(2, "most_tasks") as u64, 1);
    assert_eq!(evidence(&ran, 2, "cpu_and_runq"), "exact");
    let size = std::fs::metadata(&file).expect("written").len();
    assert_eq!(ran.stage(2, "bytes_out") as u64, size);
}

#[test]
fn a_shell_s_own_errors_stay_as_they_are() {
    if !have(&["bash"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let texts = [
        "cat > /nosuch/f",
        "cat < /nosuch",
        "nosuchcommand > f",
        "./nosuch > f",
        "/etc/passwd > f",
        "/tmp > f",
        "./script > f",
        "./badscript > f",
        "cat nosuchfile > f",
        "cat <&9",
    ];
    write_program(directory.path().join("badscript"), "#!/nosuch/interpreter\n");
    write_program(directory.path().join("script"), "echo no first line\n");
    for text in texts {
        let run = |command: &mut Command| {
            let output = command.current_dir(directory.path()).stdin(Stdio::null()).output();
            let output = output.expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
        };
        let bash = run(Command::new("bash").args(["-c", "--", text]));
        let weir = run(Command::new(WEIR).args(["run", "--quiet", text]));
        assert_eq!(weir, bash, "{text}");
    }
}

fn loop_is_told(started: &serde_json::Value, ran: &Ran) {
    assert_eq!(started["programs"][0]["program"], "basename", "{}", ran.json);
    let of = |name: &str| started[name].as_u64().expect("a number");
    // Most are never seen. When other programs start processes too, only those that were seen
    // count. A subshell that starts each of them is a process as well.
    let most = 1210;
    match started["evidence"].as_str() {
        Some("lower bound") => assert!((1..=most).contains(&of("processes")), "{started}"),
        _ => assert!((480..=most * 6 / 5).contains(&of("processes")), "{started}"),
    }
    assert!(of("likely_processes") >= of("processes"), "{started}");
    assert!(started["wall_share"].as_f64() > Some(0.3), "{started}");
    assert!(matches!(started["evidence"].as_str(), Some("estimated" | "lower bound" | "exact")));
}

#[test]
fn a_row_of_a_script_has_its_own_bytes_and_not_those_of_what_it_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("read.sh");
    // The shell reads one line at a time itself, so it gets a row, and it waits for a program that
    // reads much.
    let text = "head -c 5000000 /dev/zero | tail -c 1 > /dev/null\n\
        i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done\nexit 0\n";
    std::fs::write(&script, text).expect("written");
    let ran = pipeline(&format!("bash {}", script.display()));
    let shell = ran.running("bash (the script itself)");
    assert!(ran.stage(shell, "bytes_in") < 1e6, "{}", ran.stderr());
}

#[test]
fn a_shell_that_became_its_last_command_keeps_its_name() {
    // Bash replaces itself by its last command. The sleeps of that command were once put down to
    // subshells, and not shown.
    let ran = pipeline("sleep 0.2; sleep 0.3");
    assert_eq!(ran.running("sleep 0.2"), 2, "{}", ran.stderr());
    assert_eq!(ran.running("bash (the script itself), at last sleep"), 1, "{}", ran.stderr());
}

#[test]
fn processes_that_a_loop_starts_are_counted() {
    let _alone = alone();
    let many = "for i in $(seq 600); do basename /a/b/$i; done";
    let ran = pipeline(&format!("{many} | sort | tail -1"));
    loop_is_told(&ran.json["stages"][0]["started"], &ran);
    assert!(ran.json["stages"][1]["started"].is_null(), "sort starts nothing");
    // In a script the started processes once filled the screen, one row each, and the shell was
    // called idle.
    let ran = pipeline("for i in $(seq 600); do x=$(basename /a/b/$i); done; echo $x");
    assert_eq!((ran.stdout().as_str(), &ran.json["mode"]), ("600\n", &"script".into()));
    loop_is_told(&ran.json["started"], &ran);
    assert!(ran.stages() < 12, "{}", ran.stderr());
    assert!(!ran.stderr().contains("()"), "{}", ran.stderr());
}

#[test]
fn what_others_use_is_measured() {
    let _alone = alone();
    let hog = Command::new("perl").args(["-e", "1 while 1"]).spawn().expect("perl");
    let _hog = Killed(hog);
    let ran = pipeline("sleep 0.7 | cat");
    let host = &ran.json["host"];
    if host["others_cpus"].is_null() {
        eprintln!("SKIPPED: /proc/stat cannot be read");
        return;
    }
    let of = |name: &str| host[name].as_f64().expect("a number");
    let cpus = of("cpus");
    // The process that takes the CPU from the hog counts as one of the others too.
    assert!(of("others_cpus") > 0.3, "{host}");
    assert!(of("others_cpus") <= cpus + 0.1 && of("idle_cpus") <= cpus + 0.1, "{host}");
    assert!(of("idle_cpus") < cpus - 0.3, "{host}");
    // The pipeline's own work does not count as the others'.
    let own = pipeline(&format!("{} | cat", work(0.5)));
    let others = own.json["host"]["others_cpus"].as_f64().expect("a number");
    let used = (own.stage(1, "user_s") + own.stage(1, "sys_s")) / own.stage(1, "wall_s");
    assert!(others <= cpus - used + 0.15, "{used}: {}", own.json["host"]);
}

#[test]
fn a_quota_is_named_with_the_periods_it_was_reached_in() {
    let _alone = alone();
    let Some(group) = quota::Group::make() else {
        eprintln!("SKIPPED: no control group with a CPU quota can be made here");
        return;
    };
    let json = group.run(&format!("{} | cat", work(0.2))).json;
    let quota = &json["quota"];
    assert_eq!((&quota["cpus"], &json["cpus"]), (&0.2.into(), &0.2.into()), "{json}");
    let (periods, throttled) = (quota["periods"].as_u64(), quota["throttled_periods"].as_u64());
    assert!(periods >= Some(5) && throttled >= Some(3), "{quota}");
    assert!(quota["throttled_s"].as_f64() > Some(0.1), "{quota}");
}

#[test]
fn a_socket_s_peer_is_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("bound");
    let server = std::thread::spawn(move || {
        let (connection, _) = listener.accept().expect("accepted");
        // sleep: the server takes its time.
        std::thread::sleep(std::time::Duration::from_millis(500));
        drop(connection);
    });
    let client = format!(
        "perl -MIO::Socket::UNIX -e '$s=IO::Socket::UNIX->new(Peer=>\"{}\");print <$s>'",
        path.display()
    );
    let ran = pipeline(&format!("{client} | cat"));
    server.join().expect("served");
    let peer = &ran.json["stages"][0]["peer"];
    assert_eq!(peer["kind"], "unix", "{}", ran.json);
    assert_eq!(peer["pid"].as_u64(), Some(u64::from(std::process::id())));
    assert_eq!(peer["address"].as_str(), path.to_str());
    assert!(peer["waited_s"].as_f64() > Some(0.2), "{peer}");
    assert!(ran.json["stages"][1]["peer"].is_null());
}

#[test]
fn a_locale_that_is_not_installed_is_not_blamed() {
    let _alone = alone();
    // The variable changes nothing here: sort sorts as in the C locale. That is common in
    // containers.
    let make = "awk 'BEGIN{x=1;for(i=0;i<300000;i++){x=(x*16807)%2147483647;print x}}'";
    let ran = pipeline(&format!("{make} | LC_ALL=xx_XX.UTF-8 sort | tail -1"));
    assert_eq!(ran.advices("c-locale"), 0, "{}", ran.stderr());
}

#[test]
fn why_a_text_ran_whole_is_reported_truly() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = |command: &mut Command| {
        let command = command.env("XDG_STATE_HOME", directory.path()).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // It is one pipeline, and there are too few files to measure it stage by stage.
    let script = "ulimit -n 20; exec \"$0\" run 'echo a | cat'";
    let few = said(Command::new("bash").args(["-c", script, WEIR]));
    assert!(few.contains("ulimit -n") && !few.contains("not one top-level pipeline"), "{few}");
    assert!(!few.contains("()"), "{few}");
    let bytes = std::os::unix::ffi::OsStrExt::from_bytes(b"echo \xff | cat".as_slice());
    let binary = said(Command::new(WEIR).arg("run").arg::<&std::ffi::OsStr>(bytes));
    assert!(binary.contains("not UTF-8"), "{binary}");
    let script = weir_run_in(directory.path(), &["echo a; echo b"]);
    assert!(script.stderr().contains("not one top-level pipeline"), "{}", script.stderr());
}

#[test]
fn a_process_that_is_hidden_is_shown() {
    let _alone = alone();
    if !have(&["setpriv", "unshare", "sleep"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let open = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("permissions");
    };
    open(directory.path(), 0o777);
    // Where /proc hides the processes of other users, a program that changes its user is hidden
    // from the user who started it.
    let other = directory.path().join("othersleep");
    crate::common::copy_program("/bin/sleep", &other);
    open(&other, 0o4755);
    let text = format!("{} 0.6 | tail -1; true", other.display());
    let script = "mount -t proc -o hidepid=2 proc /proc || exit 77\n\
        drop=\"setpriv --reuid 65534 --regid 65534 --clear-groups\"\n\
        $drop \"$0\" --version > /dev/null || exit 77\n\
        exec $drop env XDG_STATE_HOME=/nonexistent \"$0\" run --json \"$1\" \"$2\"";
    let report = directory.path().join("report.json");
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", script, WEIR]).arg(&report).arg(&text);
    let output = command.stdin(Stdio::null()).output().expect("unshare");
    if !output.status.success() {
        eprintln!("SKIPPED: no /proc that hides processes can be had here");
        return;
    }
    let json = std::fs::read_to_string(&report).expect("a report");
    let said = String::from_utf8_lossy(&output.stderr);
    // Its name is known if weir looked at it before it became the other user's, and not otherwise.
    assert!(json.contains("hidden process") || json.contains("othersleep"), "{said}");
    assert!(said.contains("weir may not inspect"), "{said}");
    assert!(said.contains("on something that weir may not see"), "{said}");
}

/// With all that a user's pipes may hold used up, a pipe of 8 KiB was said to have the kernel's usual size.
/// And weir itself used it up: 256 of its pipes are all.
#[test]
fn pipes_leave_room_for_others_and_small_ones_are_told_of() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    // The file of the test may be where another user cannot read.
    let copy = directory.path().join("weir");
    crate::common::copy_program(WEIR, &copy);
    for path in [directory.path(), copy.as_path()] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("permissions");
    }
    // Takes all that pipes of this user may hold, gives some of it back, and runs weir.
    let text = "import fcntl, os, subprocess, sys\nuser, back = int(sys.argv[1]), int(sys.argv[2])\n\
                os.setgid(user); os.setuid(user); held = []\nwhile True:\n r, w = os.pipe()\n \
                size = fcntl.fcntl(w, 1032)\n \
                if size < 65536: break\n held.append((r, w))\n \
                try: fcntl.fcntl(w, 1031, 1 << 20)\n \
                except OSError: pass\n\
                [os.close(fd) for ends in [(r, w)] + held[:back] for fd in ends]\n\
                sys.exit(subprocess.run(sys.argv[3:], env={**os.environ, 'HOME': '/nonexistent'}).returncode)\n";
    let user = (61_000 + std::process::id() % 4000).to_string();
    let run = |back: &str| {
        let mut command = Command::new(python());
        command.args(["-c", text, &user, back]).arg(&copy);
        command.args(["run", "--verbose", "head -c 100000 /dev/zero | wc -c"]);
        let output = command.current_dir("/").output().expect("python3");
        assert_eq!(output.stdout, b"100000\n", "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    if std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap_or_default().trim()
        != "16384"
    {
        eprintln!("SKIPPED: the limit is not the usual one");
        return;
    }
    let used_up = run("0");
    let told = "pipes hold 8 KiB: this user's pipes have used up fs.pipe-user-pages-soft";
    assert!(used_up.contains(told), "{used_up}");
    let little = run("4");
    let told = "pipes hold 64 KiB: larger ones would leave this user's other pipes little";
    assert!(little.contains(told), "{little}");
    let enough = run("40");
    assert!(!enough.contains("pipes hold") && enough.contains("256 KiB"), "{enough}");
}
