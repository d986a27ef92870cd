//! What `weir run` finds below a script, a build or a stage: pipelines and commands, each with its
//! share of the time and its line, and the path that was waited for (docs/contracts/run.md).

use crate::common::{Ran, have, pipeline, truth, weir_run};
use serde_json::Value;
use std::path::Path;

/// A perl program that works for this long.
fn work(s: f64) -> String {
    format!("perl -MTime::HiRes=time -e '$e=time+{s};1 while time<$e'")
}

fn groups(ran: &Ran) -> &Vec<Value> {
    ran.json["groups"].as_array().expect("groups")
}

/// The group whose name contains this text.
fn group<'a>(ran: &'a Ran, name: &str) -> &'a Value {
    let found = groups(ran).iter().find(|g| g["name"].as_str().is_some_and(|n| n.contains(name)));
    found.unwrap_or_else(|| panic!("no group {name}: {}", ran.stderr()))
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let file = directory.join(name);
    std::fs::write(&file, text).expect("written");
    file.display().to_string()
}

#[test]
fn a_script_s_pipelines_have_lines_shares_and_a_verdict() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "#!/bin/bash\nset -e\n{} | cat | wc -c\nsleep 0.2\n{} | cat\n",
            work(0.3),
            work(1.2)
        );
        let script = write(directory.path(), "report.sh", &text);
        for args in [vec![format!("bash {script}")], vec![format!("cd /; bash {script}; true")]] {
            let ran = weir_run(&args.iter().map(String::as_str).collect::<Vec<_>>());
            let found: Vec<&Value> =
                groups(&ran).iter().filter(|group| group["kind"] == "pipeline").collect();
            assert_eq!(found.len(), 2, "{}", ran.stderr());
            let lines: Vec<(Option<&str>, Option<u64>)> =
                found.iter().map(|g| (g["script"].as_str(), g["line"].as_u64())).collect();
            assert_eq!(lines, [(Some("report.sh"), Some(3)), (Some("report.sh"), Some(5))]);
            assert!(found[1]["share"].as_f64() > Some(0.5), "{}", ran.stderr());
            assert!(found[0]["end_s"].as_f64() <= found[1]["start_s"].as_f64());
            assert_eq!(found[1]["verdict"]["stage"], 1, "{}", ran.stderr());
            // The verdict on the whole run is that of the group that took most of it.
            let first = found[1]["first_stage"].as_u64().expect("a row");
            assert_eq!(ran.json["verdict"]["stage"].as_u64(), Some(first), "{}", ran.stderr());
            let said = ran.json["verdict"]["text"].as_str().expect("a text");
            assert!(said.contains("line 5 of report.sh") && said.contains("of the time: pipeline"));
            let all = ran.json["stages"].as_array().expect("stages").len() as u64;
            let rows = |g: &Value| g["stages"].as_array().map_or(0, |rows| rows.len() as u64);
            assert_eq!(groups(&ran).iter().map(rows).sum::<u64>(), all, "each row has a group");
        }
    });
}

#[test]
fn what_a_loop_runs_is_one_group() {
    truth(|| {
        let text =
            "for i in 1 2 3 4 5 6; do (sleep 0.05; seq $i 20000) | sort -n | tail -n 1; done";
        let ran = pipeline(text);
        let looped = group(&ran, "sort -n");
        // Where the kernel does not tell of each process, a busy host sees few of them.
        let least = if looped["instances_evidence"] == "exact" { 6 } else { 1 };
        assert!(looped["instances"].as_u64() >= Some(least), "{}", ran.stderr());
        assert!(looped["instances"].as_u64() <= Some(6), "{}", ran.stderr());
        let times = &looped["instance_s"];
        assert!(times["min"].as_f64() <= times["median"].as_f64(), "{times}");
        assert!(times["median"].as_f64() <= times["max"].as_f64(), "{times}");
        assert!(times["sum"].as_f64() >= looped["wall_s"].as_f64().map(|s| s * 0.9), "{looped:#}");
    });
}

/// "bash, on CPU" was all that was said of a script that starts nothing.
#[test]
fn where_bash_itself_computes_has_a_line_and_a_function() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = write(
        directory.path(),
        "own.sh",
        "parse() {\n  local s=0 i\n  for ((i = 0; i < 400000; i++)); do ((s += i % 7)); done\n}\nparse\n\
         for ((i = 0; i < 20000; i++)); do :; done\n",
    );
    let ran = weir_run(&[&format!("bash {script}")]);
    let lines = ran.json["stages"][0]["lines"].as_array().expect("lines");
    if lines.is_empty() {
        eprintln!("SKIPPED: this bash does not export its variables");
        return;
    }
    let place = |of: &Value| (of["line"].as_u64(), of["function"].as_str().map(String::from));
    assert_eq!(place(&lines[0]), (Some(3), Some(String::from("parse"))), "{lines:?}");
    assert_eq!(lines[0]["script"], "own.sh");
    assert!(ran.stderr().contains("own.sh, in parse: "), "{}", ran.stderr());
}

#[test]
fn process_substitutions_and_fifos_join() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let fifo = directory.path().join("fifo");
        let slow = work(0.5);
        let text = format!(
            "cat <({slow}; echo a) <({slow}; echo b) | wc -l\n{slow} | tee >(md5sum >/dev/null) | cat\n\
             mkfifo {0}\nmd5sum < {0} &\n{slow} > {0}\nwait\n",
            fifo.display()
        );
        let script = write(directory.path(), "odd.sh", &text);
        let ran = pipeline(&format!("bash {script}"));
        let programs = |group: &Value| -> Vec<String> {
            let rows = group["stages"].as_array().expect("rows");
            rows.iter().map(|row| row["program"].as_str().unwrap_or("").to_owned()).collect()
        };
        let has = |names: &[&str]| {
            let all = |group: &Value| {
                let programs = programs(group);
                names.iter().all(|name| programs.iter().any(|program| program == name))
            };
            groups(&ran).iter().any(all)
        };
        assert!(has(&["perl", "cat", "wc"]), "{}", ran.stderr());
        assert!(has(&["perl", "tee", "md5sum", "cat"]), "{}", ran.stderr());
        assert!(has(&["perl", "md5sum"]), "{}", ran.stderr());
    });
}

#[test]
fn a_stage_is_looked_into() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = write(directory.path(), "filter.sh", &format!("cat | {}\ncat\n", work(0.8)));
        let ran = pipeline(&format!("seq 10 | bash {script} | wc -l"));
        assert_eq!(ran.json["mode"], "pipeline");
        let inside = group(&ran, "perl");
        assert_eq!((&inside["inside_stage"], &inside["first_stage"]), (&2.into(), &Value::Null));
        assert_eq!(ran.json["stages"].as_array().map(Vec::len), Some(3), "{}", ran.stderr());
        assert!(ran.stderr().contains("inside 2 bash"), "{}", ran.stderr());
        // A plain pipeline contains no groups.
        let plain = pipeline("seq 100000 | sort -n | tail -n 1");
        assert_eq!(plain.json["groups"], serde_json::json!([]));
    });
}

#[test]
fn the_critical_path_of_a_build_is_told() {
    if !have(&["make"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let perl = |s| work(s).replace('$', "$$");
        let text = format!(
            "all: a b c\n\t@{} link\na b:\n\t@{} $@\nc:\n\t@{} $@\n",
            perl(0.4),
            perl(0.3),
            perl(0.9)
        );
        let file = write(directory.path(), "Makefile", &text);
        let ran = weir_run(&["make", "-j3", "-f", &file]);
        let links = ran.json["critical_path"]["links"].as_array().expect("a path");
        let ends = |at: usize, with: &str| {
            links[at]["command"].as_str().is_some_and(|c| c.ends_with(with))
        };
        assert_eq!(links.len(), 2, "{}", ran.stderr());
        assert!(ends(0, " c") && ends(1, " link"), "{}", ran.stderr());
        assert!(ran.json["critical_path"]["share"].as_f64() > Some(0.7), "{}", ran.stderr());
        assert!(ran.stderr().contains("critical path: perl"), "{}", ran.stderr());
    });
    assert!(pipeline("true; sleep 0.1").json["critical_path"].is_null());
}

#[test]
fn what_lived_too_briefly_is_counted_with_its_cpu_time() {
    let _alone = crate::common::alone();
    let ran = pipeline("for i in $(seq 400); do basename $i > /dev/null; done; true");
    let unseen = &ran.json["unseen"];
    assert!(unseen["cpu_s"].as_f64() > Some(0.0), "{unseen}");
    assert!(ran.stderr().contains("lived too briefly to be seen"), "{}", ran.stderr());
    assert!(!ran.stderr().contains("()"), "{}", ran.stderr());
}

/// Three hundred pipelines of a millisecond each: samples meet a few of them.
#[test]
fn each_process_counts_where_the_kernel_tells_of_it() {
    let _alone = crate::common::alone();
    let ran = pipeline("for i in $(seq 300); do /bin/echo $i | sort -n; done > /dev/null; true");
    let started = &ran.json["started"];
    if started["evidence"] != "exact" {
        eprintln!("SKIPPED: the kernel tells no process events here");
        return;
    }
    // seq, and each time echo and sort.
    assert_eq!(started["processes"], 601, "{started:#}");
    assert_eq!(ran.json["unseen"]["evidence"], "exact");
    let all: u64 = groups(&ran)
        .iter()
        .filter(|group| group["name"].as_str().is_some_and(|name| name.contains("sort")))
        .filter_map(|group| group["instances"].as_u64())
        .sum();
    assert_eq!(all, 300, "{}", ran.stderr());
    let text = ran.stderr();
    assert!(text.contains("started 601 processes") || text.contains("300 times"), "{text}");
}

/// `bash -c 'bash -s x < report.sh'`: the second shell has the name of the first.
#[test]
fn a_script_on_standard_input_has_lines() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!("# report\n{} | cat\n{} | wc -c\n", work(0.8), work(0.3));
        let script = write(directory.path(), "report.sh", &text);
        let ran = pipeline(&format!("bash -s x < {script}"));
        let lines: Vec<Option<u64>> = groups(&ran)
            .iter()
            .filter(|group| group["kind"] == "pipeline")
            .map(|group| group["line"].as_u64())
            .collect();
        assert_eq!(lines, [Some(2), Some(3)], "{}", ran.stderr());
    });
}

/// A script of one pipeline has no table of groups: its line is in the head.
#[test]
fn the_line_of_a_single_pipeline_is_in_the_head() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = write(directory.path(), "one.sh", &format!("\n\n{} | cat\n", work(0.5)));
        let ran = weir_run(&[&format!("bash {script}")]);
        let head = ran.stderr().lines().next().unwrap_or_default().to_owned();
        assert!(head.contains("2 commands (line 3 of one.sh) on"), "{head}");
    });
}

/// ninja reads the output of each job through a pipe, and was shown as the last stage of them all.
#[test]
fn the_jobs_of_ninja_are_no_pipeline_into_ninja() {
    if !have(&["ninja"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let job = work(0.4).replace('$', "$$");
        let text = format!(
            "rule work\n  command = {job} && touch $out\nbuild a: work\nbuild b: work\nbuild c: work a b\n"
        );
        write(directory.path(), "build.ninja", &text);
        let ran = weir_run(&[&format!("ninja -j2 -C {}", directory.path().display())]);
        assert!(groups(&ran).iter().all(|group| group["kind"] == "command"), "{}", ran.stderr());
        let path = &ran.json["critical_path"];
        assert!(path["share"].as_f64() > Some(0.5), "{path}");
        assert!(!path["links"].as_array().expect("links").is_empty());
    });
}

/// A make that a make starts: its commands are those of the run, and its waits are nobody's.
#[test]
fn a_recursive_make_shows_the_commands_of_both() {
    if !have(&["make"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let job = |s| work(s).replace('$', "$$");
        let (inner, outer) = (job(0.4), job(0.6));
        write(directory.path(), "inner.mk", &format!("x:\n\t{inner} | cat\n"));
        let text = format!("all: sub\n\t{outer}\nsub:\n\t$(MAKE) -f inner.mk x\n");
        write(directory.path(), "Makefile", &text);
        let ran = weir_run(&[&format!("make -C {}", directory.path().display())]);
        let pipelines = groups(&ran).iter().filter(|group| group["kind"] == "pipeline");
        assert_eq!(pipelines.count(), 1, "{}", ran.stderr());
        let held = ran.json["verdict"]["text"].as_str().expect("a text");
        assert!(held.starts_with(|c: char| c.is_ascii_digit()) && held.contains("perl"), "{held}");
    });
}

/// What runs behind a terminal that a program makes (`script`) is found as below a shell.
#[test]
fn what_runs_on_a_terminal_of_its_own_has_lines_too() {
    if !have(&["script"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script =
            write(directory.path(), "t.sh", &format!("{} | wc -c\nsleep 0.2\n", work(0.8)));
        let ran = pipeline(&format!("script -qc 'bash {script}' /dev/null | cat"));
        let found = group(&ran, "wc -c");
        assert_eq!((found["line"].as_u64(), &found["inside_stage"]), (Some(1), &1.into()));
        let said = ran.json["verdict"]["text"].as_str().expect("a text");
        assert!(said.contains("line 1 of t.sh"), "{said}");
    });
}

/// A pool of workers, one of which has more to do: "it waited for standard input 55 % of the time", of the
/// mean of a master that waits and of workers that compute, or they "ask and answer in turn".
#[test]
fn a_pool_of_copies_works_while_one_of_them_does() {
    if !have(&["python3"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let text = "import multiprocessing as m, time\ndef work(s):\n    end = time.process_time() + s\n    \
                    while time.process_time() < end: pass\nif __name__ == '__main__':\n    with m.Pool(2) as p: \
                    p.map(work, [.004] * 100 + [.8], chunksize=1)\n    print('done')\n";
        let script = write(directory.path(), "pool.py", text);
        let ran = weir_run(&[&format!("python3 {script}; true")]);
        assert_eq!(ran.stdout(), "done\n");
        let found = group(&ran, "pool.py");
        assert_eq!(found["verdict"]["stage"], 1, "{}", ran.stderr());
        let stage = &found["stages"][0];
        let (busy, cpu_s) = (stage["busy"].as_f64(), stage["cpu_s"].as_f64());
        assert!(busy > Some(0.8) && cpu_s > Some(0.6), "{}", ran.stderr());
    });
}

/// A pipeline that fed a loop of the shell had 98 % of the time, in which it waited for the shell.
#[test]
fn what_feeds_the_shell_of_a_script_does_not_count_its_waits_for_that() {
    truth(|| {
        let text =
            "while read -r a; do n=$((n + a)); done < <(seq 200000 | head -n 150000); echo $n";
        let ran = weir_run(&["bash", "-c", text]);
        assert_eq!(ran.stdout(), "11250075000\n");
        let share = |name: &str| group(&ran, name)["share"].as_f64().expect("a share");
        assert!(share("seq") < 0.6, "{}", ran.stderr());
        assert!(share("bash") > 0.7, "{}", ran.stderr());
    });
}

/// Two processes that a pair of sockets joins are a pipeline, as if it were a pipe.
#[test]
fn a_pair_of_sockets_joins_two_processes() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let text = "use Socket; socketpair($a, $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die;
if (!fork) { close $b; open STDOUT, '>&', $a; exec 'perl', '-e', 'for (1..20) { my $e = (times)[0] + .04; \
                    1 while (times)[0] < $e; syswrite STDOUT, \"x\" x 65536 }' }
if (!fork) { close $a; open STDIN, '<&', $b; exec 'md5sum' }
close $a; close $b; wait; wait;\n";
        let script = write(directory.path(), "pair.pl", text);
        let ran = weir_run(&[&format!("perl {script}")]);
        let joined = group(&ran, "md5sum");
        assert_eq!(joined["kind"], "pipeline", "{}", ran.stderr());
        assert_eq!(joined["verdict"]["stage"], 1, "{}", ran.stderr());
        let rows = joined["stages"].as_array().expect("rows");
        assert!(rows[1]["command"].as_str().is_some_and(|row| row.contains("md5sum")), "{joined}");
    });
}

/// Where no process event comes, the shell that waited for a loop's processes knows their CPU time.
#[test]
fn a_loop_s_cpu_time_is_that_which_its_shell_waited_for() {
    truth(|| {
        let job = "perl -e \"1 while (times)[0] < .02\"";
        let ran = pipeline(&format!("bash -c 'for i in 1 2 3 4 5 6 7 8; do {job}; done; times'"));
        // It prints the times of the shell itself, and below them of all that it waited for.
        let printed = ran.stdout();
        let times: Vec<f64> = printed.split_whitespace().map(seconds).collect();
        let [user_s, system_s, below_user_s, below_system_s] = times[..] else {
            panic!("{printed}")
        };
        let looped = group(&ran, "perl");
        let cpu_s = looped["cpu_s"].as_f64().expect("a time");
        // It prints milliseconds.
        let most_s = user_s + system_s + below_user_s + below_system_s + 0.002;
        assert!((0.16..=most_s).contains(&cpu_s), "{printed}{}", ran.stderr());
        let known = looped["cpu_evidence"].as_str();
        assert!(matches!(known, Some("exact" | "upper bound")), "{looped:#}");
    });
}

/// Reads a time as the shell prints it: `0m1.234s`.
fn seconds(text: &str) -> f64 {
    let (minutes, rest) = text.split_once('m').expect("minutes");
    let seconds: f64 = rest.trim_end_matches('s').parse().expect("seconds");
    minutes.parse::<f64>().expect("minutes") * 60.0 + seconds
}

/// A subshell becomes its last command, which then had all the time of the subshell: `wc` took
/// 0.3 s, as an exact time, and was held up by the command before it.
#[test]
fn a_subshell_that_becomes_its_last_command_is_not_that_command_alone() {
    truth(|| {
        let ran = pipeline("echo | (sleep 0.3; wc -l /etc/passwd)");
        if ran.json["started"]["evidence"] != "exact" {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        }
        let long = |found: &&Value| found["wall_s"].as_f64() > Some(0.25);
        let names: Vec<&Value> = groups(&ran).iter().filter(long).map(|of| &of["name"]).collect();
        let is_both = |name: &&Value| {
            name.as_str().is_some_and(|name| name.starts_with("bash (a subshell), at last "))
        };
        // On a busy host the script itself may have waited for a CPU for long enough to be shown.
        let others = ["sleep 0.3", "bash (the script itself)"];
        let is_other = |name: &&Value| others.iter().any(|other| *name == other);
        assert!(names.iter().all(|name| is_both(name) || is_other(name)), "{names:?}");
        assert!(names.iter().any(is_both), "{}", ran.stderr());
    });
}

/// The script keeps a pipe open for a process that reads what it says, and all commands have that end
/// open too: they were one group, called a pipeline. Nor does the time of that process count, which
/// only waits.
#[test]
fn a_pipe_that_the_script_keeps_open_joins_no_commands() {
    let ran =
        pipeline("exec 3> >(cat >/dev/null)\nsleep 0.8\nsleep 0.4; sleep 0.3\necho end >&3\n");
    let names: Vec<&str> = groups(&ran).iter().filter_map(|g| g["name"].as_str()).collect();
    assert!(!names.iter().any(|name| name.contains('|')), "{}", ran.stderr());
    assert!(names.contains(&"sleep 0.8") && names.contains(&"sleep 0.3"), "{names:?}");
    let said = ran.json["verdict"]["text"].as_str().expect("a text");
    assert!(said.contains("sleep 0.8") && !said.contains("cat"), "{said}");
}

/// A script that reads another file may run anything anywhere: it has no lines, and says why.
#[test]
fn a_script_without_lines_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "lib.sh", "x=0.2\n");
    let text = format!("cd {}\n. ./lib.sh\nsleep $x\n", directory.path().display());
    let script = write(directory.path(), "reads.sh", &text);
    let ran = weir_run(&["bash", &script]);
    assert!(group(&ran, "sleep")["line"].is_null());
    assert!(ran.stderr().contains("commands of reads.sh have no lines here: on line 2,"));
    let script = write(directory.path(), "plain.sh", "sleep 0.1\ntrue\n");
    assert!(!weir_run(&["bash", &script]).stderr().contains("have no lines"));
}

/// A program in perl that runs the same eight times: two of eight were missing, the others stood by
/// themselves, and "perl x.pl: held up by perl x.pl" above them.
#[test]
fn a_parent_that_is_no_shell_gets_what_a_script_gets() {
    if !have(&["perl"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "for my $i (1..6) {{ system(\"sleep 0.0$i; seq $i 20000 | sort -n | tail -n 1 >&2\") }}\n\
             {}\n",
            "use Time::HiRes 'time'; my $e = time + 0.6; 1 while time < $e;"
        );
        let program = write(directory.path(), "etl.pl", &text);
        let ran = weir_run(&["perl", &program]);
        assert_eq!(ran.stages(), 1, "{}", ran.stderr());
        let said = ran.json["verdict"]["text"].as_str().expect("a text");
        assert!(said.contains("perl") && said.contains(", its own work "), "{said}");
        assert!(!said.contains("held up by perl"), "{said}");
        if ran.json["started"]["evidence"] != "exact" {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        }
        let sorted = group(&ran, "sort -n");
        assert_eq!(sorted["instances"], 6, "{}", ran.stderr());
        assert_eq!(group(&ran, "sleep")["instances"], 6, "{}", ran.stderr());
    });
}

/// `weir run make -j2 > log` said that each command made `log`.
#[test]
fn the_output_of_the_run_is_no_target() {
    if !have(&["make", "perl"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let perl = work(0.1).replace('$', "$$");
    let text = format!("all: a b c\na b:\n\t{perl}\nc: a b\n\t{perl}\n");
    let file = write(directory.path(), "Makefile", &text);
    let log = std::fs::File::create(directory.path().join("log")).expect("a file");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let ran = command.args(["run", "make", "-j2", "-f", &file]).stdout(log).output().expect("weir");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("critical path: perl") && !said.contains("> log"), "{said}");
}

/// The path came last, below lines that said that the groups were too short to judge. Nobody was told
/// which target a command made.
#[test]
fn a_build_tells_its_path_first_with_targets_and_whether_more_jobs_help() {
    if !have(&["make", "perl"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let perl = work(0.5).replace('$', "$$");
        let text =
            format!("all: a b c\na b c:\n\t{perl} > {}/$@.out\n", directory.path().display());
        let file = write(directory.path(), "Makefile", &text);
        let ran = weir_run(&["make", "-f", &file]);
        let said = ran.json["verdict"]["text"].as_str().expect("a text");
        // Nothing ran beside something else: the groups come first.
        assert!(!said.starts_with("critical path"), "{said}");
        let jobs = &ran.json["jobs"];
        assert_eq!((&jobs["most"], &jobs["asked"]), (&1.into(), &1.into()), "{jobs}");
        assert!(jobs["most_s"].as_f64() > Some(1.2), "{jobs}");
        let ran = weir_run(&["make", "-j2", "-f", &file]);
        let said = ran.json["verdict"]["text"].as_str().expect("a text");
        assert!(said.starts_with("critical path: perl"), "{said}");
        let links = ran.json["critical_path"]["links"].as_array().expect("a path");
        let targets: Vec<&str> = links.iter().filter_map(|link| link["output"].as_str()).collect();
        assert!(targets.len() == 2 && targets[1].ends_with("c.out"), "{}", ran.stderr());
        assert_eq!(ran.json["jobs"]["most"], 2);
        let same = groups(&ran).iter().filter(|group| group["instances"] == 3).count();
        assert_eq!(same, 1, "{}", ran.stderr());
    });
}

/// Four commands took 2.5 s to read one file four times, and the report named only the commands.
#[test]
fn a_file_that_one_command_after_another_reads_is_named() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| directory.path().join(name).display().to_string();
        let lines: String = (0..1_500_000).map(|n| format!("{n} customer {}\n", n % 977)).collect();
        for name in ["orders.csv", "copy.csv"] {
            std::fs::write(file(name), &lines).expect("written");
        }
        let of = |last: &str| {
            let (big, last) = (file("orders.csv"), file(last));
            weir_run(&[&format!("sort -k3 {big} | tail -1; sort -rk3 {last} | tail -1")])
        };
        let said = "orders.csv is read 2 times";
        let ran = of("orders.csv");
        assert!(ran.stderr().contains(said), "{}", ran.stderr());
        let ran = of("copy.csv");
        assert!(!ran.stderr().contains(" is read 2 times"), "{}", ran.stderr());
    });
}

/// gzip was named, and pigz advised, where nothing needed to be packed.
#[test]
fn what_a_script_packs_and_unpacks_again_is_reported() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| directory.path().join(name).display().to_string();
        let lines: String =
            (0..700_000_u64).map(|n| format!("{n} {}\n", n * 7919 % 65_537)).collect();
        std::fs::write(file("big.txt"), lines).expect("written");
        let (big, packed) = (file("big.txt"), file("t.gz"));
        let of = |end: &str| {
            weir_run(&[&format!("gzip -c {big} > {packed}; gzip -dc {packed} | wc -l; {end}")])
        };
        for (end, kept) in [(format!("rm {packed}"), false), (String::from("true"), true)] {
            let ran = of(&end);
            let advice = ran.json["advice"].as_array().expect("advice");
            let packing = advice.iter().find(|advice| advice["kind"] == "no-packing");
            let said = packing.and_then(|it| it["text"].as_str()).unwrap_or_default();
            assert!(said.starts_with("do not pack t.gz"), "{}", ran.stderr());
            assert_eq!(said.contains("unless you keep it"), kept, "{said}");
            let first = "of the time goes into packing and unpacking t.gz again";
            assert!(ran.stderr().contains(first), "{}", ran.stderr());
        }
    });
}
