//! What `weir run` concludes about pipelines whose truth is known by construction: which stage it
//! blames where times alone do not decide, and that it gives no advice that cannot help.

use crate::common::hogs::Hogs;
use crate::common::{Ran, alone, have, pipeline, python, quota, truth, weir_run};

/// Takes 64 KiB every 3 ms, about 20 MB/s.
const SIP: &str = "perl -e 'while(sysread STDIN,$b,65536){select(undef,undef,undef,.003)}'";

/// The texts of the advice of this kind.
fn advice(ran: &Ran, kind: &str) -> Vec<String> {
    let all = ran.json["advice"].as_array().expect("advice").iter();
    let texts = all.filter(|advice| advice["kind"] == kind).map(|advice| advice["text"].as_str());
    texts.map(|text| text.expect("a text").to_owned()).collect()
}

#[test]
fn a_rate_limiter_is_named_and_gets_no_buffer() {
    truth(|| {
        if !have(&["pv"]) {
            return;
        }
        // The reader needs less than half the time that the rate leaves it. While it reads a burst,
        // the limiter is held up in a write and sleeps less afterwards.
        let ran = pipeline(&format!("head -c 12000000 /dev/zero | pv -qL 8m | {SIP}"));
        assert_eq!((ran.culprit(), ran.reason()), (2, "sleep"), "{}", ran.stderr());
        assert!(ran.stderr().contains("it keeps to a rate"), "{}", ran.stderr());
        assert_eq!(
            ran.advices("elastic-buffer") + ran.advices("larger-pipe"),
            0,
            "{}",
            ran.stderr()
        );
        // A limiter that is faster than its reader holds nobody up.
        let slow = pipeline(&format!("head -c 8000000 /dev/zero | pv -qL 200m | {SIP}"));
        assert_eq!(slow.culprit(), 3, "{}", slow.stderr());
    });
}

#[test]
fn a_stage_that_works_beside_a_full_pipe_is_not_what_holds_the_run_up() {
    truth(|| {
        // Some task of the first stage computes all the time, but that does not hold up the
        // pipeline: the pipe behind the stage is full, and its reader sleeps.
        let aside = "perl -e '$t=time+2;1 while time<$t'";
        let writer = format!("sh -c \"{aside} & head -c 6000000 /dev/zero; wait\"");
        let ran = pipeline(&format!("{} | {SLOW}", writer.replace('$', "\\$"), SLOW = SLOW_SIP));
        assert_eq!(ran.culprit(), 2, "{}", ran.stderr());
    });
}

/// Takes 64 KiB every 20 ms: 6 MB in two seconds.
const SLOW_SIP: &str = "perl -e 'while(sysread STDIN,$b,65536){select(undef,undef,undef,.02)}'";

#[test]
fn the_reader_of_small_writes_is_not_told_to_read_in_larger_blocks() {
    truth(|| {
        let ran = pipeline("perl -e '$|=1;for(1..300000){print \"twelve bytes\"}' | wc -c");
        assert_eq!(advice(&ran, "larger-reads"), Vec::<String>::new(), "{}", ran.stderr());
        let loops = pipeline("seq 60000 | while read -r n; do :; done");
        let found = advice(&loops, "larger-reads");
        assert!(found[0].contains("reads 1 byte a call in"), "{found:?}");
    });
}

/// A loop of grep over one file took 37 times as long as one awk, and nothing was said.
#[test]
fn a_file_that_is_read_again_and_again_is_read_in_one_pass() {
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("orders.csv");
        let lines: String = (0..1_000_000).map(|n| format!("{n},customer {}\n", n % 977)).collect();
        std::fs::write(&file, lines).expect("written");
        let file = file.display();
        let looped = format!("for i in $(seq 11 30); do grep -c \"er $i.*9\" {file}; done");
        for text in [format!("{looped} | tail -1"), format!("{looped}; echo done")] {
            let ran = weir_run(&[&text]);
            let found = advice(&ran, "one-pass");
            assert!(found.len() == 1 && found[0].contains("orders.csv"), "{}", ran.stderr());
        }
        // A file each.
        let others = format!(
            "for i in 1 2 3 4 5 6; do cp {file} {file}.$i; grep -c \"er 1$i.*9\" {file}.$i; done | tail -1"
        );
        let ran = weir_run(&[&others]);
        assert_eq!(advice(&ran, "one-pass"), Vec::<String>::new(), "{}", ran.stderr());
    });
}

#[test]
fn lines_of_which_few_differ_are_counted_without_a_sort() {
    truth(|| {
        let of = |modulus: u32| {
            let lines =
                format!("awk 'BEGIN {{ for (i = 0; i < 900000; i++) print i % {modulus} }}'");
            pipeline(&format!("{lines} | sort | uniq -c | tail -1"))
        };
        let few = of(9);
        assert_eq!(few.advices("count-in-table"), 1, "{}", few.stderr());
        let many = of(300_000);
        assert_eq!(many.advices("count-in-table"), 0, "{}", many.stderr());
    });
}

#[test]
fn each_gain_says_whether_it_is_a_bound() {
    truth(|| {
        let ran = pipeline("seq 100000 | while read -r n; do echo $n; done | tail -1");
        let all = ran.json["advice"].as_array().expect("advice");
        assert!(!all.is_empty() && all.len() <= 3, "{}", ran.stderr());
        for advice in all {
            let factor = advice["expected_speedup"].as_f64().expect("a factor");
            assert!(factor >= 1.1, "{advice}");
            match advice["gain"].as_str() {
                Some("bound") => assert_eq!(advice["expected_speedup_at_most"], factor),
                Some("estimate") => assert!(advice["expected_speedup_at_most"].is_null()),
                _ => panic!("{advice}"),
            }
        }
    });
}

#[test]
fn a_loop_that_is_replaced_may_gain_all_of_its_time() {
    truth(|| {
        let ran = pipeline("seq 200000 | while read -r n; do echo $n; done | sort -n | tail -1");
        let all = ran.json["advice"].as_array().expect("advice").iter();
        let advice = all.filter(|advice| advice["kind"] == "larger-reads").collect::<Vec<_>>();
        let said = advice[0]["expected_speedup"].as_f64().expect("a factor");
        // The bound once took its time in the kernel for all the time that could be saved. What
        // stays is at most what the other stages did, one after the other.
        let cpu_s = |stage: usize| ran.stage(stage, "user_s") + ran.stage(stage, "sys_s");
        let others_s = cpu_s(1) + cpu_s(3) + cpu_s(4);
        let wall_s = ran.json["wall_s"].as_f64().expect("a time");
        assert!(said >= (wall_s / others_s).min(100.0), "{said:.1}\n{}", ran.stderr());
    });
}

#[test]
fn a_loop_that_starts_a_program_for_each_line_is_told_so() {
    truth(|| {
        let ran = pipeline("for i in $(seq 1500); do basename /a/$i; done | tail -1");
        assert_eq!((ran.stdout().as_str(), ran.culprit()), ("1500\n", 1), "{}", ran.stderr());
        assert_eq!(ran.reason(), "processes", "{}", ran.stderr());
        let found = advice(&ran, "fewer-processes");
        assert!(found[0].contains("${i##*/} in place of basename"), "{found:?}");
        assert_eq!(ran.advices("larger-writes"), 0, "{}", ran.stderr());
    });
}

#[test]
fn a_busy_host_is_named_and_its_cpus_are_not_called_idle() {
    let _alone = alone();
    if !have(&["gzip"]) {
        return;
    }
    let hogs = Hogs::start(2 * std::thread::available_parallelism().map_or(1, usize::from));
    let ran = pipeline("head -c 20000000 /dev/urandom | gzip -1 | wc -c");
    drop(hogs);
    assert!(ran.stderr().contains("\nbeside others: other processes used"), "{}", ran.stderr());
    // pigz does the same in less time also there.
    assert!(!ran.stderr().contains("idle"), "{}", ran.stderr());
    assert_eq!(ran.advices("more-cpus"), 0, "{}", ran.stderr());
    let pipes = ran.advices("larger-pipe") + ran.advices("elastic-buffer");
    assert_eq!(pipes, 0, "{}", ran.stderr());
}

#[test]
fn an_empty_script_names_nobody_without_a_name() {
    let ran = weir_run(&["sleep 0.2; true"]);
    let text = ran.json["verdict"]["text"].as_str().expect("a text");
    assert!(!text.contains("()"), "{text}");
}

#[test]
fn a_quota_is_the_reason_and_nothing_is_advised_that_it_makes_useless() {
    truth(|| {
        let Some(group) = quota::Group::make() else {
            eprintln!("SKIPPED: no control group with a CPU quota can be made here");
            return;
        };
        let work = "perl -e 'while((times)[0]+(times)[1]<.3){$x++ for 1..1000}print \"x\" x 4e6'";
        let ran = group.run(&format!("{work} | gzip -1 | wc -c"));
        assert_eq!((ran.culprit(), ran.reason()), (1, "quota"), "{}", ran.stderr());
        let said = "held up by 1 perl -e";
        let why = "throttled by a CPU quota of 0.2 CPUs in";
        assert!(ran.stderr().contains(said) && ran.stderr().contains(why), "{}", ran.stderr());
        let all = ran.json["advice"].as_array().expect("advice");
        assert!(all.iter().all(|advice| advice["kind"] == "more-cpus"), "{}", ran.stderr());
        // The CPU time of the other stages is five times as long here. The bound must not become
        // absurd.
        let cpu = |index: usize| ran.stage(index, "user_s") + ran.stage(index, "sys_s");
        let wall = ran.json["wall_s"].as_f64().expect("a time");
        let limit = ran.json["verdict"]["speedup_limit"].as_f64().expect("a limit");
        assert!(limit <= 1.01 * wall / ((cpu(2) + cpu(3)) / 0.2), "{limit}\n{}", ran.stderr());
    });
}

/// The group of one stage was taken for a busy host: "run it when the host has less to do".
#[test]
fn the_quota_of_one_stage_is_the_reason_and_not_the_host() {
    truth(|| {
        let Some(group) = quota::Group::make() else {
            eprintln!("SKIPPED: no control group with a CPU quota can be made here");
            return;
        };
        let gzip = group.stage("gzip -1");
        let ran = pipeline(&format!("head -c 8000000 /dev/urandom | {gzip} | wc -c"));
        assert_eq!((ran.culprit(), ran.reason()), (2, "quota"), "{}", ran.stderr());
        let (said, name) =
            ("throttled by a CPU quota of 0.2 CPUs of its control group", group.name());
        assert!(ran.stderr().contains(&format!("{said} '{name}'")), "{}", ran.stderr());
        assert!(!ran.stderr().contains("has less to do"), "{}", ran.stderr());
        let quota = &ran.json["stages"][1]["quota"];
        assert_eq!((&quota["group"], &quota["cpus"]), (&name.into(), &0.2.into()));
        assert!(quota["throttled_periods"].as_u64() >= Some(3), "{quota}");
        let others = [0, 2].map(|stage| ran.json["stages"][stage]["quota"].is_null());
        assert_eq!((ran.json["quota"].is_null(), others), (true, [true; 2]), "{}", ran.json);
    });
}

/// Pages that a limit of memory throws out and that are read again were called disk, or CPU.
#[test]
fn a_limit_of_memory_is_the_reason_where_it_makes_a_stage_read_its_pages_again() {
    truth(|| {
        let limit = quota::Group::of_memory("25165824").filter(|_| have(&[python()]));
        let Some(group) = limit else {
            eprintln!("SKIPPED: no control group with a limit of memory can be made here");
            return;
        };
        // Beside the program: what is in memory is never read from a disk.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let file = directory.path().join("file");
        std::fs::write(&file, vec![1; 96 << 20]).expect("written");
        // What is in the page cache already is charged to who put it there.
        let script = "import mmap, os, random, sys, time\n\
            f = os.open(sys.argv[1], os.O_RDONLY)\n\
            os.fsync(f)\n\
            os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)\n\
            m = mmap.mmap(f, 0, prot=mmap.PROT_READ)\n\
            m.madvise(mmap.MADV_RANDOM)\n\
            end = time.monotonic() + 4\n\
            while time.monotonic() < end: m[random.randrange(len(m) >> 12) << 12]\n";
        std::fs::write(directory.path().join("touch.py"), script).expect("written");
        let touches = format!("{0}/touch.py {0}/file", directory.path().display());
        let ran = pipeline(&format!("{} | cat", group.stage(&format!("{} {touches}", python()))));
        assert_eq!((ran.culprit(), ran.reason()), (1, "memory"), "{}", ran.stderr());
        let said =
            format!("waits for pages (memory limit 24 MiB of its control group '{}'", group.name());
        assert!(ran.stderr().contains(&said), "{}", ran.stderr());
        let stage = &ran.json["stages"][0];
        assert!(stage["major_faults"].as_u64() >= Some(100), "{stage}");
        assert_eq!(stage["memory_limit"]["limit_bytes"], 25_165_824, "{stage}");
        assert!(stage["memory_limit"]["times_reached"].as_u64() > Some(0), "{stage}");
        assert!(ran.json["stages"][1]["memory_limit"].is_null());
    });
}

#[test]
fn a_command_that_follows_advice_does_the_same_in_less_time() {
    truth(|| {
        let lines = "perl -e 'print \"a line of $_ words\\n\" for 1..700000'";
        let ran = pipeline(&format!("{lines} | grep --line-buffered 'line of' | tail -n 1"));
        let all = ran.json["advice"].as_array().expect("advice");
        let piece = all.iter().find(|piece| piece["kind"] == "larger-writes");
        let piece = piece.unwrap_or_else(|| panic!("{}", ran.stderr()));
        let wanted = format!("{lines} | grep 'line of' | tail -n 1");
        assert_eq!(piece["command"], wanted, "{piece}");
        assert_eq!(pipeline(&wanted).output.stdout, ran.output.stdout);
    });
}

/// "waiting for the disk" left open that each row was one transaction of its own.
#[test]
fn who_waits_for_the_disk_after_each_write_is_told_so() {
    truth(|| {
        if !have(&[python()]) {
            return;
        }
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let file = directory.path().join("rows");
        let script = "import os, sys, time\n\
            f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n\
            end = time.monotonic() + 2\n\
            while time.monotonic() < end:\n os.write(f, b'x' * 100)\n os.fsync(f)\n";
        std::fs::write(directory.path().join("rows.py"), script).expect("written");
        let ran = pipeline(&format!(
            "{} {}/rows.py {} | cat",
            python(),
            directory.path().display(),
            file.display()
        ));
        let stage = &ran.json["stages"][0];
        if stage["blocked_other"]["disk_s"].as_f64() < Some(0.2) {
            eprintln!("SKIPPED: to flush a file takes no time here");
            return;
        }
        let wait = &stage["files"][0];
        assert_eq!((&wait["access"], wait["path"].as_str()), (&"flush".into(), file.to_str()));
        assert!(stage["flushes"]["times_at_least"].as_u64() >= Some(20), "{stage}");
        assert!(ran.stderr().contains("the disk to flush "), "{}", ran.stderr());
    });
}

/// "other processes used 1.8 of 2 CPUs" did not tell whom to ask.
#[test]
fn who_uses_the_other_cpus_is_named() {
    let _alone = alone();
    if !have(&[python()]) {
        return;
    }
    let _hogs = Hogs::start(2 * std::thread::available_parallelism().map_or(1, usize::from));
    let burn =
        "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass";
    let ran = pipeline(&format!("{} -c '{burn}' | cat", python()));
    let others = ran.json["host"]["others"].as_array().expect("programs");
    assert!(!others.is_empty(), "{}", ran.json["host"]);
    assert!(ran.stderr().contains("(most: "), "{}", ran.stderr());
}
