//! `weir watch`: processes that run already, seen from outside (docs/contracts/watch.md).

use crate::common::killed::Killed;
use crate::common::{WEIR, bound, quota, schema, until};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use weir_measure::programs::find_program;

fn staged(command: &mut Command) -> Killed {
    let child = command.spawn().expect("it starts");
    bound(&child);
    Killed(child)
}

fn watch(args: &[&str]) -> Value {
    let output = Command::new(WEIR).arg("watch").args(args).args(["--json", "-"]).output();
    let output = output.expect("weir");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    schema::check_text("weir.run/1", &output.stdout)
}

/// The report for people.
fn watched_text(args: &[&str]) -> String {
    let output = Command::new(WEIR).arg("watch").args(args).output().expect("weir");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn id(staged: &Killed) -> String {
    staged.0.id().to_string()
}

/// A writer and a reader joined by a pipe, which this process does not keep.
fn joined(writer: &mut Command, reader: &mut Command) -> (Killed, Killed) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let writer = staged(writer.stdin(Stdio::null()).stdout(write));
    (writer, staged(reader.stdin(read).stdout(Stdio::null())))
}

#[test]
fn only_what_was_used_while_watched_counts() {
    let mut busy = Command::new("perl");
    busy.args(["-e", "while((times)[0]<1){$x++for 1..1000} $|=1; print 'x'; sleep 100"]);
    let mut busy = staged(busy.stdout(Stdio::piped()));
    busy.0.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it is done");
    let seen = watch(&[&id(&busy), "--for", "300ms"]);
    let stage = &seen["stages"][0];
    let cpu_s = stage["user_s"].as_f64().expect("known") + stage["sys_s"].as_f64().expect("known");
    assert!(cpu_s < 0.2, "{cpu_s} s: it used one second before\n{seen:#}");
    assert_eq!(
        (&seen["exit_status"], &seen["watched"]["has_ended"]),
        (&Value::Null, &false.into())
    );
    assert_eq!(seen["watched"]["pids"][0], busy.0.id());
}

#[test]
fn the_whole_pipeline_is_found_and_its_bytes_pass_as_before() {
    let slow = "$|=1; while(sysread(STDIN,$b,4096)){select undef,undef,undef,.01}";
    let (writer, reader) =
        joined(&mut Command::new("yes"), Command::new("perl").args(["-e", slow]));
    let (of_writer, of_reader) = (writer.0.id(), reader.0.id());
    let seen = watch(&[&id(&writer), "--for", "1s"]);
    assert_eq!(seen["stages"].as_array().expect("stages").len(), 2, "{seen:#}");
    let pipe = &seen["watched"]["pipes"][0];
    assert_eq!((&pipe["writer_pid"], &pipe["reader_pid"]), (&of_writer.into(), &of_reader.into()));
    assert_eq!(seen["watched"]["is_stuck"], false);
    assert_eq!(seen["pipes"][0]["capacity_bytes"], 65_536, "left as it was");
}

/// The kernel keeps 15 bytes of a name, and no process was found by more of it.
#[test]
fn a_process_is_found_by_a_name_longer_than_the_kernel_keeps() {
    let directory = tempfile::tempdir().expect("a directory");
    // Of the second it keeps half of a letter.
    for name in ["a-name-of-more-than-15-bytes", "a-name-of-four\u{e9}\u{e9}n"] {
        let program = directory.path().join(name);
        std::os::unix::fs::symlink(find_program("sleep".as_ref()).expect("sleep"), &program)
            .expect("linked");
        let mut sleeper = Command::new(&program);
        let sleeper = staged(sleeper.arg("100").stdin(Stdio::null()).stdout(Stdio::null()));
        let seen = watch(&["--comm", name, "--for", "100ms"]);
        assert_eq!(seen["watched"]["pids"], serde_json::json!([sleeper.0.id()]));
    }
}

#[test]
fn what_does_not_move_is_stuck() {
    let reader = "sleep 100";
    let (writer, _reader) =
        joined(&mut Command::new("yes"), Command::new("perl").args(["-e", reader]));
    let mut seen = Value::Null;
    // The first look may come before the pipe is full.
    until("it is stuck", || {
        seen = watch(&[&id(&writer), "--for", "1500ms"]);
        seen["watched"]["is_stuck"] == true
    });
    assert_eq!(seen["watched"]["pipes"][0]["backlog"], "backlog steady", "{seen:#}");
}

/// A process that its quota kept from the CPUs waited for a CPU, and nobody said why.
#[test]
fn a_quota_of_what_is_watched_is_the_reason() {
    let Some(group) = quota::Group::make() else {
        eprintln!("SKIPPED: no control group can be made here");
        return;
    };
    // It gets more than its quota whatever else runs here.
    let mut busy = Command::new("nice");
    busy.args(["-n", "-20", "perl", "-e", "1 while 1"]);
    let busy = staged(busy.stdin(Stdio::null()).stdout(Stdio::null()));
    group.add(busy.0.id() as i32);
    let directory = group.path().display().to_string();
    let pid = id(&busy);
    for target in [["--pid", &pid], ["--cgroup", &directory]] {
        let mut seen = Value::Null;
        until("the quota", || {
            seen = watch(&[target[0], target[1], "--for", "1500ms"]);
            seen["quota"]["throttled_periods"].as_u64() >= Some(4)
        });
        assert_eq!(seen["quota"]["cpus"], 0.2, "{seen:#}");
        let text = watched_text(&[target[0], target[1], "--for", "1500ms", "--brief"]);
        assert!(text.contains("throttled by a CPU quota of 0.2 CPUs"), "{text}");
        assert!(!text.contains("other processes used"), "{text}");
    }
}

#[test]
fn a_brief_report_has_no_tables() {
    let sleeper =
        staged(Command::new("sleep").arg("100").stdin(Stdio::null()).stdout(Stdio::null()));
    let (pid, time) = (id(&sleeper), ["--for", "100ms"]);
    let whole = watched_text(&[&["-p", &pid], time.as_slice()].concat());
    let brief = watched_text(&[&["-p", &pid, "--brief"], time.as_slice()].concat());
    assert!(brief.lines().count() < whole.lines().count(), "{brief}\n{whole}");
    assert!(!brief.contains("wall"), "{brief}");
}

/// Whoever waited for somebody to type was stuck.
#[test]
fn who_waits_at_a_terminal_is_not_stuck() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("granted");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let terminal = File::open(name).expect("a terminal");
    let cat = staged(Command::new("cat").stdin(terminal).stdout(Stdio::null()));
    until("it waits", || {
        let seen = watch(&[&id(&cat), "--for", "1200ms"]);
        assert_eq!(seen["watched"]["is_stuck"], false, "{seen:#}");
        let stage = &seen["stages"][0];
        stage["blocked_in_s"].as_f64() >= Some(1.0) && stage["read_calls"] == 0
    });
}

#[test]
fn the_watched_see_the_end_of_file_and_a_closed_pipe_as_without_weir() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let mut cat = staged(Command::new("cat").stdin(read).stdout(Stdio::null()));
    let mut yes = staged(Command::new("yes").stdout(Stdio::piped()));
    let pids = [id(&cat), id(&yes)];
    let watch = |pid: &String| {
        let mut command = Command::new(WEIR);
        command.args(["watch", pid, "--json", "-"]).stdout(Stdio::piped());
        staged(&mut command)
    };
    let mut watching = pids.each_ref().map(watch);
    // sleep: weir is to look at them for a while.
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(write);
    assert!(cat.0.wait().expect("waited").success(), "the end of file has come");
    drop(yes.0.stdout.take());
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(yes.0.wait().expect("waited").signal(), Some(13), "SIGPIPE has come");
    for weir in &mut watching {
        let mut text = Vec::new();
        weir.0.stdout.as_mut().expect("piped").read_to_end(&mut text).expect("read");
        let seen = schema::check_text("weir.run/1", &text);
        assert_eq!(seen["watched"]["has_ended"], true, "weir ends with them");
    }
}

#[test]
fn pipes_grow_only_when_asked() {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let cat =
        staged(Command::new("cat").stdin(read.try_clone().expect("copied")).stdout(Stdio::null()));
    assert_eq!(fcntl_getpipe_size(&read), Ok(65_536));
    watch(&[&id(&cat), "--for", "200ms"]);
    assert_eq!(fcntl_getpipe_size(&read), Ok(65_536));
    watch(&[&id(&cat), "--for", "200ms", "--grow=128K"]);
    assert_eq!(fcntl_getpipe_size(&read), Ok(131_072));
    std::fs::File::from(write).write_all(b"x").expect("it still reads");
}

#[test]
fn several_processes_are_watched_together() {
    let both = [(); 2].map(|()| staged(Command::new("sleep").arg("100")));
    let [one, other] = both.each_ref().map(id);
    let seen = watch(&[&one, &other, "--for", "200ms"]);
    let pids = seen["watched"]["pids"].as_array().expect("a list").clone();
    for pid in [one, other] {
        assert!(pids.iter().any(|seen| seen.as_i64() == pid.parse().ok()), "{pid}: {pids:?}");
    }
}

/// The kernel shows a backslash in a name as two, and nobody seemed to have the name.
#[test]
fn a_process_is_found_by_an_odd_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("od\\d");
    crate::common::copy_program("/bin/sleep", &program);
    let mut sleep = Command::new(&program);
    let _sleeps = staged(sleep.arg("100").stdin(Stdio::null()).stdout(Stdio::null()));
    let seen = watch(&["--comm", "od\\d", "--for", "100ms"]);
    assert_eq!(seen["stages"][0]["program"], "od\\d", "{seen:#}");
}

/// A control group as Podman makes it, and Podman's list of names.
#[test]
fn a_container_is_watched_by_its_name_and_its_number() {
    let number = format!("{:064x}", 0x00c0_ffee_0000 + u64::from(std::process::id()));
    let groups = weir_measure::cgroup::directories("memory");
    let group = groups.first().map(|own| own.join(format!("libpod-{number}.scope")));
    let Some(group) = group.filter(|group| std::fs::create_dir(group).is_ok()) else {
        return println!("SKIPPED: no control group can be made");
    };
    // With no pipe of its own, it is alone.
    let mut sleep = Command::new("sleep");
    let sleep = staged(sleep.arg("100").stdin(Stdio::null()).stdout(Stdio::null()));
    let moved = std::fs::write(group.join("cgroup.procs"), id(&sleep));
    let home = tempfile::tempdir().expect("a directory");
    let storage = home.path().join("containers/storage/overlay-containers");
    std::fs::create_dir_all(&storage).expect("made");
    let list = serde_json::json!([{ "id": number, "names": ["web"] }]).to_string();
    std::fs::write(storage.join("containers.json"), list).expect("written");
    let watched = |name: &str| {
        let mut weir = Command::new(WEIR);
        weir.args(["watch", "--container", name, "--for", "200ms"]).args(["--json", "-"]);
        weir.env("XDG_DATA_HOME", home.path()).output().expect("weir")
    };
    let outputs = ["web", &number].map(watched);
    let pid = id(&sleep);
    drop(sleep);
    // The group is removed once it has no process.
    let mut tries = 0;
    while std::fs::remove_dir(&group).is_err() && tries < 1_000 {
        std::thread::yield_now();
        tries += 1;
    }
    if moved.is_err() {
        return println!("SKIPPED: no process can be moved to a control group");
    }
    for output in outputs {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let seen = schema::check_text("weir.run/1", &output.stdout);
        assert_eq!(seen["watched"]["pids"].to_string(), format!("[{pid}]"));
    }
}

#[test]
fn what_is_not_there_is_an_error() {
    for (args, status) in [
        (&["999999999"][..], 1),
        (&["1", "999999999", "--for", "100ms"], 1),
        (&["--comm", "no such name"], 1),
        (&["--cgroup", "/no/such/group"], 1),
        (&["--container", "no-such-container"], 1),
        (&["--container", ""], 1),
        (&["0"], 2),
        (&["x"], 2),
        (&[], 2),
        (&["1", "--comm", "x"], 2),
    ] {
        let output = Command::new(WEIR).arg("watch").args(args).output().expect("weir");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
        assert!(status == 2 || text.starts_with("weir: cannot "), "{text}");
    }
}

#[test]
fn who_becomes_another_program_or_ends_meanwhile_is_reported() {
    for (text, has_ended) in [("read x; exec sleep 100", false), ("read x; exit 3", true)] {
        let mut shell = Command::new("bash");
        let mut shell =
            staged(shell.args(["-c", text]).stdin(Stdio::piped()).stdout(Stdio::null()));
        let args = ["watch", &id(&shell), "--for", "3s", "--interval", "500ms", "--json", "-"];
        let weir = Command::new(WEIR).args(args).stdout(Stdio::piped()).spawn().expect("weir");
        let mut weir = Killed(weir);
        bound(&weir.0);
        let mut lines = BufReader::new(weir.0.stdout.take().expect("piped")).lines();
        // The first report proves that it is being watched.
        lines.next().expect("a report").expect("read");
        writeln!(shell.0.stdin.as_mut().expect("piped")).expect("it reads");
        let last = lines.last().expect("one more report").expect("read");
        let seen = schema::check_text("weir.run/1", last.as_bytes());
        assert_eq!(seen["watched"]["has_ended"], has_ended, "{seen:#}");
        assert!(has_ended || seen["stages"][0]["command"] == "sleep 100", "{seen:#}");
        assert!(weir.0.wait().expect("weir").success());
    }
}

#[test]
fn reports_come_at_intervals_and_have_their_own_figures() {
    let mut spins = Command::new("perl");
    let spins = staged(spins.args(["-e", "$x++ while 1"]).stdin(Stdio::null()));
    let args = ["watch", &id(&spins), "--for", "1500ms", "--interval", "500ms", "--json", "-"];
    let output = Command::new(WEIR).args(args).output().expect("weir");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert!((2..=4).contains(&lines.len()), "{text}");
    for line in lines {
        let seen = schema::check_text("weir.run/1", line.as_bytes());
        let (wall_s, stage) = (seen["wall_s"].as_f64().expect("known"), &seen["stages"][0]);
        let cpu_s = stage["cpu_s"].as_f64().expect("known");
        assert!(cpu_s <= wall_s + 0.05, "{cpu_s} of {wall_s}");
    }
}

/// The reports ended with the process that was named, although its pipeline continued.
#[test]
fn reports_continue_while_anything_that_is_watched_does() {
    let (writer, reader) = joined(
        Command::new("sleep").arg("100"),
        Command::new("sh").args(["-c", "cat; exec sleep 100"]),
    );
    let args = ["watch", &id(&writer), "--interval", "300ms", "--json", "-"];
    let mut weir = staged(Command::new(WEIR).args(args).stdout(Stdio::piped()));
    let mut lines = BufReader::new(weir.0.stdout.take().expect("piped")).lines();
    // The first report proves that both are watched.
    lines.next().expect("a report").expect("read");
    let gone = writer.0.id();
    drop(writer);
    let of_the_rest = lines.map(|line| line.expect("read")).find_map(|line| {
        let seen = schema::check_text("weir.run/1", line.as_bytes());
        let pids = seen["watched"]["pids"].as_array().expect("a list").clone();
        (!pids.contains(&gone.into())).then_some(pids)
    });
    let pids = of_the_rest.expect("a report after that");
    assert!(pids.contains(&reader.0.id().into()), "{pids:?}");
}

#[test]
fn the_page_and_the_trace_show_what_was_watched() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut busy = Command::new("perl");
    let busy = busy.args(["-e", "while(1){$x++}"]).stdin(Stdio::null()).stdout(Stdio::null());
    let busy = staged(busy.stderr(Stdio::null()));
    let [page, trace] = ["page.html", "trace.json"].map(|name| directory.path().join(name));
    let files = [&page, &trace].map(|path| path.to_str().expect("text"));
    let args = ["--for", "500ms", "--html", files[0], "--chrome-trace", files[1]];
    let seen = watch(&[&[id(&busy).as_str()], &args[..]].concat());
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("<h1>weir watch</h1>") && page.contains("perl"), "{page}");
    assert!(!page.contains("exit status"), "it has not ended");
    let trace = std::fs::read_to_string(&trace).expect("a trace");
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    assert!(trace.to_string().contains("perl"), "{trace}");
    // A host may refuse samples; the report says so then.
    let profile = &seen["profile"];
    let samples = profile["stages"][0]["samples"].as_u64();
    assert!(
        samples.is_some_and(|samples| samples > 0) || profile["refused"].is_string(),
        "{seen:#}"
    );
}

/// Nothing was printed where `--json` named a file.
#[test]
fn a_file_gets_the_json_and_standard_output_the_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let sleeps = staged(Command::new("sleep").arg("100").stdin(Stdio::null()));
    let file = directory.path().join("report.json");
    let mut weir = Command::new(WEIR);
    weir.args(["watch", &id(&sleeps), "--for", "100ms", "--json"]).arg(&file);
    let output = weir.output().expect("weir");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.starts_with("weir: "), "{text}");
    schema::check_text("weir.run/1", &std::fs::read(&file).expect("written"));
}

/// It continued as long as the processes did.
#[test]
fn it_ends_once_nobody_reads_its_reports() {
    let sleeps = staged(Command::new("sleep").arg("100").stdin(Stdio::null()));
    let mut weir = Command::new(WEIR);
    weir.args(["watch", &id(&sleeps), "--interval", "100ms"]).stdout(Stdio::piped());
    let mut weir = staged(&mut weir);
    let mut lines = BufReader::new(weir.0.stdout.take().expect("piped"));
    lines.read_line(&mut String::new()).expect("a report");
    drop(lines);
    let mut ended = None;
    until("it has ended", || {
        ended = weir.0.try_wait().expect("waited");
        ended.is_some()
    });
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
