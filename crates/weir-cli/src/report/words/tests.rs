//! Sentences on runs written down by hand.

use super::*;
use weir_doctor::advice::{Advice, AdviceKind, Advised, Gain, Surroundings};
use weir_doctor::diagnosis::diagnose;
use weir_doctor::ending::{Ending, MemoryKills};
use weir_doctor::ends::EndRemark;
use weir_doctor::facts::{FoundGroup, GroupQuota, Holder, Host, MemoryLimit, OutsideProcess, Peer};
use weir_doctor::facts::{Phase, Pipe, Program, Quota, Stage, Watched};
use weir_doctor::partition::Times;
use weir_doctor::verdict::judge;

const MS: u64 = 1_000_000;

/// A stage by milliseconds: on CPU, queue, input, output, asleep.
pub fn stage(label: &str, [cpu, queue, input, output, sleep]: [u64; 5]) -> Stage {
    let times = Times {
        cpu_ns: cpu * MS,
        queue_ns: queue * MS,
        input_ns: input * MS,
        output_ns: output * MS,
        sleep_ns: sleep * MS,
        ..Times::default()
    };
    Stage {
        label: label.to_owned(),
        program: label.split(' ').next().unwrap_or("").to_owned(),
        wall_ns: 1000 * MS,
        times,
        user_ns: cpu * MS,
        single_task: true,
        samples: 200,
        ..Stage::default()
    }
}

/// Gives a stage this many read calls that moved these bytes.
fn reads(stage: &mut Stage, calls: u64, bytes: u64) {
    let io = stage.io.get_or_insert_default();
    (io.read_calls, io.read_bytes) = (calls, bytes);
}

/// Gives a stage this many write calls that moved these bytes.
fn writes(stage: &mut Stage, calls: u64, bytes: u64) {
    let io = stage.io.get_or_insert_default();
    (io.write_calls, io.write_bytes) = (calls, bytes);
}

/// Lets this much of a stage's CPU time be the kernel's.
fn in_kernel(stage: &mut Stage, system_ns: u64) {
    (stage.user_ns, stage.system_ns) = (stage.cpu_sum_ns() - system_ns, system_ns);
}

fn run(stages: Vec<Stage>) -> Run {
    Run { wall_ns: 1000 * MS, cpus: 2.0, stages, ..Run::default() }
}

fn judged(run: &Run) -> String {
    verdict(run, &judge(run))
}

/// The first piece of advice on a run.
fn advised(run: &Run, remembers: bool) -> String {
    let found = diagnose(run, "", &Rapidgzip { remembers }).advice;
    advice(run, found.first().expect("advice"))
}

/// A host that has rapidgzip.
struct Rapidgzip {
    remembers: bool,
}

impl Surroundings for Rapidgzip {
    fn has_program(&self, name: &str) -> bool {
        name == "rapidgzip"
    }

    fn remembers(&self) -> bool {
        self.remembers
    }
}

/// A piece of advice in words.
fn in_words(run: &Run, found: &Advice) -> String {
    advice(run, &Advised::of(run, "", found.clone(), &()))
}

/// In a script and in what is watched, the sentence began with a colon, and `cat` copied 0 B.
#[test]
fn advice_on_a_script_says_what_to_do_without_a_command_to_type() {
    let mut script =
        run(vec![stage("cat a b.log", [400, 0, 0, 600, 0]), stage("xz -1", [900, 0, 100, 0, 0])]);
    script.script = true;
    script.host.idle_cpus = Some(1.0);
    let of = |kind, stage| {
        let found = Advice { kind, stage: Some(stage), pipe: None, gain: Gain::About(2.0) };
        in_words(&script, &found)
    };
    assert_eq!(
        of(AdviceKind::DirectInput, 0),
        "let 2 xz -1 read the file itself: 1 cat a b.log only copies it"
    );
    assert_eq!(
        of(AdviceKind::MoreThreads, 1),
        "give 2 xz -1 more threads: it used one CPU while of all CPUs 1 CPU had nothing to do"
    );
    assert!(
        of(AdviceKind::UncompressedStream, 0).starts_with("pass records on uncompressed: 2 xz")
    );
    assert!(of(AdviceKind::FasterCipher, 0).starts_with("choose an AES cipher: 1 cat"));
}

/// The option that it named is one of `weir run`.
#[test]
fn advice_on_what_is_watched_names_an_option_of_the_verb() {
    let mut watched = run(vec![stage("a", [500; 5]), stage("b", [500; 5])]);
    watched.pipes = vec![Pipe { from: 0, to: 1, limit_bytes: 1 << 20, ..Pipe::default() }];
    let kind = AdviceKind::LargerPipe;
    let larger = Advice { kind, stage: None, pipe: Some(0), gain: Gain::About(2.0) };
    let said = in_words(&watched, &larger);
    assert!(said.starts_with("give pipe 1->2 up to 1 MiB (--pipe-size auto): "), "{said}");
    // The pipes of a script are not enlarged while they are in use.
    watched.script = true;
    let said = in_words(&watched, &larger);
    assert!(said.starts_with("give pipe 1->2 up to 1 MiB (--pipe-size 1048576): "), "{said}");
    watched.watched = Some(Watched::default());
    let said = in_words(&watched, &larger);
    assert!(said.starts_with("give pipe 1->2 up to 1 MiB (--grow): "), "{said}");
}

#[test]
fn who_held_a_run_up_is_named_with_the_next_limit() {
    let mut three = run(vec![
        stage("cat f", [50, 0, 0, 950, 0]),
        stage("grep host7", [930, 20, 50, 0, 0]),
        stage("wc -l", [500, 0, 500, 0, 0]),
    ]);
    assert_eq!(
        judged(&three),
        "held up by 2 grep host7: on CPU 93 % of the time\n\
         if 2 grep took no time, the next limit would be 3 wc -l: at most 2.0x faster"
    );
    three.stages[1].label.clear();
    assert!(judged(&three).starts_with("held up by stage 2: on CPU 93 %"));
    let queued = run(vec![stage("a", [200, 700, 50, 50, 0]), stage("b", [100, 100, 800, 0, 0])]);
    assert!(judged(&queued).contains("waiting for a CPU 70 %, on CPU 20 % of the time"));
    let paced = run(vec![stage("pv -qL 20m", [20, 0, 0, 450, 530])]);
    let said = "held up by 1 pv -qL 20m: it keeps to a rate: asleep 53 % of the time";
    assert!(judged(&paced).starts_with(said));
}

#[test]
fn what_held_nobody_up_is_reported_so() {
    let tie = run(vec![stage("a", [880, 0, 0, 120, 0]), stage("b", [930, 0, 70, 0, 0])]);
    let said = "no single bottleneck: 1 a (busy 88 %) and 2 b (busy 93 %); the 2 CPUs were full";
    assert_eq!(judged(&tie), said);
    let mut outside = run(vec![stage("cat", [20, 0, 0, 980, 0])]);
    outside.output_to_outside = true;
    let said = "held up from outside: it waited for the reader of standard output 98 % of the time";
    assert_eq!(judged(&outside), said);
    outside.stages[0].times = Times { input_ns: 900 * MS, ..Times::default() };
    outside.input_from_outside = true;
    let said = "held up from outside: it waited for standard input 90 % of the time";
    assert_eq!(judged(&outside), said);
    let idle = run(vec![stage("bash", [10, 0, 0, 0, 0]), stage("tail", [10, 0, 990, 0, 0])]);
    assert_eq!(judged(&idle), "no single bottleneck: no stage was busy for long");
}

#[test]
fn what_cannot_be_said_is_reported_with_the_reason() {
    let mut hidden = run(vec![stage("sudo x", [10, 0, 0, 0, 0])]);
    hidden.stages[0].times.unknown_ns = 990 * MS;
    let said =
        "cannot say: 1 sudo x was blocked 99 % of the time on something that weir may not see";
    assert_eq!(judged(&hidden), said);
    let mut short = run(vec![stage("true", [1, 0, 0, 0, 0])]);
    short.stages[0].samples = 2;
    assert_eq!(judged(&short), "too short to say what held it up (1000 ms)");
    assert_eq!(judged(&Run::default()), "nothing ran");
    let script = Run { script: true, ..Run::default() };
    assert_eq!(judged(&script), "too short to say what held it up");
    let blind = Run { blind: true, ..run(vec![stage("a", [10, 0, 0, 0, 0])]) };
    let said = "cannot say: /proc does not show the stages, so only CPU time and memory are known";
    assert_eq!(judged(&blind), said);
}

#[test]
fn a_quota_is_named_with_who_used_it() {
    let mut throttled = run(vec![
        stage("zcat", [140, 860, 0, 0, 0]),
        stage("grep x", [50, 500, 450, 0, 0]),
        stage("wc -l", [10, 100, 890, 0, 0]),
    ]);
    throttled.cpus = 0.2;
    throttled.quota =
        Some(Quota { cpus: 0.2, periods: 50, throttled_periods: 49, throttled_ns: 800 * MS });
    assert_eq!(
        judged(&throttled),
        "held up by 1 zcat: throttled by a CPU quota of 0.2 CPUs in 98 % of the periods, and \
         it used 70 % of the CPU time\nif 1 zcat took no time, the next limit would be 2 grep x: at most 3.4x faster"
    );
    let said = "a higher CPU quota: the run was throttled by a CPU quota of 0.2 CPUs in 98 % of \
                the periods";
    assert_eq!(advised(&throttled, false), said);
    throttled.stages[1].user_ns = 130 * MS;
    assert_eq!(
        judged(&throttled),
        "no single bottleneck: throttled by a CPU quota of 0.2 CPUs in 98 % of the periods; 1 zcat \
         used 50 % and 2 grep x used 46 % of the CPU time"
    );
}

#[test]
fn the_group_of_one_stage_is_named_with_what_it_withheld() {
    let mut alone = run(vec![stage("gzip -1", [200, 790, 10, 0, 0])]);
    let quota = Quota { cpus: 0.2, periods: 10, throttled_periods: 10, throttled_ns: 780 * MS };
    alone.stages[0].quota = Some(GroupQuota { group: "job".to_owned(), quota });
    assert_eq!(
        judged(&alone),
        "held up by 1 gzip -1: throttled by a CPU quota of 0.2 CPUs of its control group 'job' \
         79 %, on CPU 20 % of the time"
    );
    let said = "a higher CPU quota: 1 gzip -1 was throttled by a CPU quota of 0.2 CPUs of its \
                control group 'job'";
    assert_eq!(advised(&alone, false), said);
    let mut short = run(vec![stage("python3 touch.py", [300, 0, 0, 0, 0])]);
    (short.stages[0].times.disk_ns, short.stages[0].major_faults) = (600 * MS, Some(40_000));
    let limit = MemoryLimit { group: "job".to_owned(), limit_bytes: 64 << 20, times_reached: 9 };
    short.stages[0].memory_limit = Some(limit.clone());
    let said = |group: &str| {
        format!(
            "held up by 1 python3 touch.py: waits for pages (memory limit 64 MiB{group}, 40 k \
             faults from disk): waiting for the disk 60 %, on CPU 30 % of the time"
        )
    };
    assert_eq!(judged(&short), said(" of its control group 'job'"));
    short.stages[0].memory_limit = None;
    short.memory_limit = Some(MemoryLimit { group: String::new(), ..limit });
    assert_eq!(judged(&short), said(""));
}

#[test]
fn what_others_used_explains_a_wait_for_a_cpu() {
    let mut crowded =
        run(vec![stage("a", [200, 700, 50, 50, 0]), stage("b", [100, 100, 800, 0, 0])]);
    crowded.host =
        Host { cpus: 2, others_cpus: Some(1.8), steal_cpus: Some(0.3), ..Host::default() };
    let text = judged(&crowded);
    let said = "\nbeside others: other processes used 1.8 of 2 CPUs, the hypervisor took away 0.3 of 2 \
                CPUs (steal), and stages waited 0.8 s for a CPU\n";
    assert!(text.contains(said), "{text}");
    assert!(text.ends_with("perhaps 5.0x faster while others use the CPUs"), "{text}");
    assert_eq!(diagnose(&crowded, "", &()).advice, [], "nothing that is typed changes that");
    // "Stages waited 0.0 s for a CPU", and it was at most 1.5x.
    crowded.wall_ns = 140 * MS;
    crowded.stages.iter_mut().for_each(|stage| stage.times.queue_ns /= 40);
    assert!(!judged(&crowded).contains("beside others"), "{}", judged(&crowded));
    let full = run(vec![stage("a", [900, 450, 0, 0, 0]), stage("b", [900, 450, 0, 0, 0])]);
    let said = "twice as many CPUs: the 2 CPUs it may use were full, and stages waited 0.9 s for \
                a CPU";
    assert_eq!(advised(&full, false), said);
}

#[test]
fn advice_on_a_pipe_says_how_often_it_was_full_and_empty() {
    let mut bursts = run(vec![stage("a", [500, 0, 0, 500, 0]), stage("b", [500, 0, 500, 0, 0])]);
    bursts.pipes = vec![Pipe {
        from: 0,
        to: 1,
        capacity_bytes: 65_536,
        limit_bytes: 1 << 20,
        full_share: Some(0.41),
        empty_share: Some(0.38),
        longest_turn_ns: 200 * MS,
        long_turns_ns: 400 * MS,
        samples: 200,
        ..Pipe::default()
    }];
    let rest = "... | weir buffer | ...): it was full 41 % and empty 38 % of the time, in bursts \
                larger than a pipe";
    let buffer = "put an elastic buffer into pipe 1->2 (";
    let again = "run again with --elastic, or: ";
    assert_eq!(advised(&bursts, true), format!("{buffer}{again}{rest}"));
    assert_eq!(advised(&bursts, false), format!("{buffer}{rest}"));
    bursts.script = true;
    assert_eq!(advised(&bursts, true), format!("{buffer}{rest}"));
    (bursts.script, bursts.pipes[0].longest_turn_ns) = (false, 5 * MS);
    let said = "give pipe 1->2 up to 1 MiB (--pipe-size auto): it was full 41 % and empty 38 % of \
                the time";
    assert_eq!(advised(&bursts, true), said);
}

#[test]
fn advice_on_a_stage_says_what_it_did() {
    let mut tiny = run(vec![stage("python3 -u g.py", [950, 0, 0, 50, 0])]);
    writes(&mut tiny.stages[0], 1_000_000, 14_000_000);
    in_kernel(&mut tiny.stages[0], 600 * MS);
    let said = "leave out -u: 1 python3 -u g.py writes 14 bytes a call in 1.0 M calls";
    assert_eq!(advised(&tiny, false), said);
    let mut sorts = run(vec![stage("sort -k4", [950, 0, 50, 0, 0])]);
    sorts.stages[0].locale = Some(String::from("en_US.UTF-8"));
    let said = "set LC_ALL=C for 1 sort -k4 if byte order is enough: sort compares text by the \
                locale en_US.UTF-8";
    assert_eq!(advised(&sorts, false), said);
    let mut zipped = run(vec![stage("gzip -dc f.gz", [950, 0, 0, 50, 0])]);
    zipped.host = Host { idle_cpus: Some(1.04), ..Host::default() };
    let said = "rapidgzip -d -c in place of 1 gzip -dc f.gz (same format): it used one CPU while \
                1 CPU was idle";
    assert_eq!(advised(&zipped, false), said);
    reads(&mut zipped.stages[0], 9_600_000, 9_600_000);
    let (kind, gain) = (AdviceKind::LargerReads, Gain::About(2.0));
    let reads = Advice { kind, stage: Some(0), pipe: None, gain };
    let words = "let it read in larger blocks (in its code, or by an option of its own): 1 gzip -dc f.gz reads \
                 1 byte a call in 9.6 M calls";
    assert_eq!(in_words(&zipped, &reads), words);
}

#[test]
fn a_loop_of_processes_is_named_with_what_could_replace_them() {
    let label = "for i in $(seq 3000); do basename $i; done";
    let mut forks = run(vec![stage(label, [900, 0, 0, 0, 0])]);
    let programs = ["basename", "seq"].into_iter().zip([2990, 1]);
    forks.stages[0].started = Some(Started {
        processes: 3000,
        likely_processes: 3000,
        mean_life_ns: 1_100_000,
        wall_share: 0.91,
        programs: programs
            .map(|(name, processes)| Program { name: name.to_owned(), processes, share: 0.5 })
            .collect(),
        evidence: Evidence::Exact,
    });
    let why = "started 3000 processes (basename), about 1 ms each: 91 % of the time";
    assert!(judged(&forks).contains(why), "{}", judged(&forks));
    assert!(advised(&forks, false).contains("in place of basename, or awk for the whole loop"));
    let started = forks.stages[0].started.as_mut().expect("started");
    started.evidence = Evidence::LowerBound;
    assert!(judged(&forks).contains("started at least 3000 processes (basename): 91 %"));
}

#[test]
fn a_bound_and_an_estimate_are_reported_differently() {
    let said = [Gain::AtMost(3.095), Gain::AtMost(13.6), Gain::About(3.04), Gain::About(250.0)];
    let words =
        [" (at most 3.1x faster)", "", " (perhaps 3.0x faster)", " (perhaps over 10x faster)"];
    let shown = said.map(|gain| {
        let found = Advice { kind: AdviceKind::LargerWrites, stage: Some(0), pipe: None, gain };
        with_gain((&Advised::of(&Run::default(), "", found, &()), "write more"))
    });
    assert_eq!(shown, words.map(|factor| format!("write more{factor}")));
    let idle = run(vec![stage("sort", [990, 0, 0, 10, 0]), stage("cat", [4, 0, 996, 0, 0])]);
    let said = judged(&idle);
    assert!(said.ends_with("if 1 sort took no time, hardly anything would be left"), "{said}");
}

/// The second command of a script was called "1 psql -c x", beside a table in which it is 2.
#[test]
fn who_waited_for_a_process_outside_has_its_own_number() {
    let mut asks = stage("psql -c x", [20, 0, 0, 0, 0]);
    asks.times.network_ns = 900 * MS;
    let times = Times { cpu_ns: 850 * MS, ..Times::default() };
    let (program, pid) = (String::from("postgres"), 812);
    let process = OutsideProcess { program, pid, times, samples: 100, ..OutsideProcess::default() };
    let (pid, process) = (Some(812), Some(Box::new(process)));
    asks.peer = Some(Peer { waited_ns: 900 * MS, pid, process, ..Peer::default() });
    let stages = vec![stage("tar c x", [990, 0, 0, 0, 0]), asks];
    let group = |(at, stage): (usize, &Stage)| FoundGroup {
        run: run(vec![stage.clone()]),
        name: stage.label.clone(),
        first_stage: Some(at),
        instances: 1,
        ..FoundGroup::default()
    };
    let found = stages.iter().enumerate().map(group).collect();
    let mut script = Run { groups: found, script: true, ..run(stages) };
    let said = |run: &Run| groups::groups(run, &diagnose(run, "", &()));
    assert!(said(&script).contains("on CPU 85 % of its time; 2 psql -c x waited for it"));
    // Of a script, the neighbours were named in advice and nowhere else.
    let mut crowded = script.clone();
    crowded.host.others_cpus = Some(1.2);
    assert!(!said(&crowded).contains("beside others"));
    crowded.stages[0].times.queue_ns = 400 * MS;
    let note =
        "\nbeside others: other processes used 1.2 of 2 CPUs, and stages waited 0.4 s for a CPU";
    assert!(said(&crowded).ends_with(note), "{}", said(&crowded));
    // What is found inside of a stage has no number.
    script.groups.remove(0);
    (script.groups[0].first_stage, script.groups[0].inside) = (None, Some(0));
    let verdict = judge(&run(vec![stage("sh", [990, 0, 0, 0, 0])]));
    let inside = weir_doctor::groups::inside(&script, &verdict);
    let found = Diagnosis { inside, ..diagnose(&script, "", &()) };
    let said = groups::inside(&script, &found).expect("a group");
    assert!(said.contains("of its time; psql -c x waited for it"), "{said}");
}

#[test]
fn an_end_names_who_read_too_little() {
    let of = |label, end, how, last| {
        let kills = MemoryKills { group: Some(1), host: None };
        let found = weir_doctor::ending::remark(label, end, false, kills).expect("a remark");
        remark(&EndRemark { stage: Some(0), remark: found, is_last: last }, label, how)
    };
    let killed = |last| of("sort -S 1G", Some(Ending::Signal(15)), "SIGTERM", last);
    let said = "1 sort -S 1G was killed by SIGTERM: ";
    assert_eq!(killed(false), format!("{said}the stages after it had incomplete input"));
    assert_eq!(killed(true), format!("{said}its output is incomplete"));
    let cause =
        " (out of memory: the kernel killed 1 process of this control group during the run)";
    assert_eq!(
        of("sort", Some(Ending::Signal(9)), "SIGKILL", true),
        format!("1 sort was killed by SIGKILL{cause}: its output is incomplete")
    );
    assert_eq!(
        of("(sort)", Some(Ending::Code(137)), "137", true),
        format!("1 (sort) failed with status 137, which means SIGKILL{cause}")
    );
    let said = "1 grep x ended with status 1: nothing matched";
    assert_eq!(of("grep x", Some(Ending::Code(1)), "1", true), said);
    let said = "1 nosuch was not started: command not found";
    assert_eq!(of("nosuch", None, "command not found", false), said);
    let said = "1 sort failed with status 2: the stages after it may have had incomplete input";
    assert_eq!(of("sort", Some(Ending::Code(2)), "2", false), said);
    // ulimit -f: "failed with status 153".
    let shown = [153, 143, 137, 129, 127, 255].map(status);
    assert_eq!(shown, ["153 (as by SIGXFSZ)", "143 (as by SIGTERM)", "137", "129", "127", "255"]);
}

/// A phase up to this many ms.
fn phase(run: &mut Run, end_ms: u64, holder: Holder) {
    let start_ns = run.phases.last().map_or(0, |last| last.end_ns);
    run.phases.push(Phase { start_ns, end_ns: end_ms * MS, holder });
}

fn by(stage: usize, alone: bool) -> Holder {
    Holder::Stage { stage, busy: 0.98, alone }
}

#[test]
fn stages_that_held_the_run_up_in_turn_are_named_by_time() {
    let mut two =
        run(vec![stage("sort big", [550, 0, 20, 430, 0]), stage("gzip -9", [520, 0, 480, 0, 0])]);
    phase(&mut two, 420, by(0, true));
    assert_eq!(phases(&two, &two.phases), None, "one phase says nothing");
    phase(&mut two, 1000, by(1, false));
    let said = judged(&two);
    assert!(
        said.starts_with("held up by 2 gzip -9 for 58 % of the time, and by 1 sort big for 42 %\n")
    );
    assert!(said.contains("if 2 gzip took no time, the next limit would be 1 sort big"), "{said}");
    assert_eq!(
        phases(&two, &two.phases).as_deref(),
        Some("phases: 0-0.4s held up by 1 sort alone; 0.4-1.0s by 2 gzip")
    );
}

/// "phases: 0-6.5s elsewhere", while a tar that has a gzip below it ran all that time.
#[test]
fn a_script_whose_phases_are_mostly_not_known_has_none() {
    let mut two = run(vec![stage("tar czf a d", [550, 0, 0, 0, 0]), stage("ls", [350; 5])]);
    phase(&mut two, 650, Holder::Nobody);
    phase(&mut two, 1000, by(1, true));
    assert!(phases(&two, &two.phases).is_some());
    two.script = true;
    assert_eq!(phases(&two, &two.phases), None);
}

#[test]
fn phases_are_told_with_as_many_digits_as_they_need() {
    let mut three = run(vec![stage("a", [0; 5]), stage("b", [0; 5]), stage("c x", [0; 5])]);
    phase(&mut three, 150, Holder::Nobody);
    phase(&mut three, 700, Holder::Two([0, 2]));
    phase(&mut three, 1000, by(1, true));
    assert_eq!(
        phases(&three, &three.phases).as_deref(),
        Some(
            "phases: 0-0.15s no stage was busy; 0.15-0.70s held up by 1 a and 3 c alike; \
             0.70-1.00s by 2 b alone"
        )
    );
    three.phases.clear();
    (1..=12).for_each(|minute| phase(&mut three, 60_000 * minute, by(minute as usize % 3, false)));
    let said = phases(&three, &three.phases).expect("many");
    assert!(said.contains("60-120s by 3 c; ") && said.ends_with("; and 4 more"), "{said}");
}
