//! Advice on runs written down by hand: given where the evidence is there, silent where not.

use super::*;
use crate::partition::Times;
use crate::verdict::judge;
use alloc::string::ToString;
use alloc::vec;

const MS: u64 = 1_000_000;

/// A stage by milliseconds: on CPU, queue, input, output.
fn stage(label: &str, [cpu, queue, input, output]: [u64; 4]) -> Stage {
    let times = Times {
        cpu_ns: cpu * MS,
        queue_ns: queue * MS,
        input_ns: input * MS,
        output_ns: output * MS,
        ..Times::default()
    };
    let program = label.split(' ').next().unwrap_or("").to_string();
    let (wall_ns, cpu_sum_ns) = (1000 * MS, cpu * MS);
    let label = label.to_string();
    let single_task = true;
    Stage {
        label,
        program,
        wall_ns,
        times,
        cpu_sum_ns,
        single_task,
        samples: 200,
        ..Stage::default()
    }
}

fn run(stages: Vec<Stage>) -> Run {
    Run { wall_ns: 1000 * MS, cpus: 2.0, stages, ..Run::default() }
}

fn advice(run: &Run) -> Vec<Advice> {
    advise(run, &judge(run))
}

fn kinds(run: &Run) -> Vec<Kind> {
    advice(run).iter().map(|advice| advice.kind).collect()
}

fn with_pipe(full_share: f64, empty_share: f64, longest_ns: u64) -> Run {
    let mut run = run(vec![stage("a", [500, 0, 0, 500]), stage("b", [500, 0, 500, 0])]);
    run.pipes = vec![Pipe {
        from: 0,
        to: 1,
        capacity_bytes: 65_536,
        limit_bytes: 1 << 20,
        full_share,
        empty_share,
        longest_full_ns: longest_ns,
        longest_empty_ns: longest_ns,
        longest_turn_ns: longest_ns,
        samples: 200,
    }];
    run
}

#[test]
fn a_pipe_full_and_empty_in_turn_should_be_larger() {
    let found = advice(&with_pipe(0.4, 0.4, 5 * MS));
    assert_eq!(found[0].kind, Kind::LargerPipe);
    assert!((found[0].gain_limit - 2.0).abs() < 1e-9);
    assert!(found[0].text.contains("full 40 % and empty 40 %"));
}

#[test]
fn a_pipe_that_is_only_full_needs_no_memory() {
    assert_eq!(kinds(&with_pipe(0.9, 0.0, 5 * MS)), vec![]);
    assert_eq!(kinds(&with_pipe(0.0, 0.9, 5 * MS)), vec![]);
}

#[test]
fn bursts_longer_than_a_pipe_ask_for_an_elastic_buffer() {
    assert_eq!(kinds(&with_pipe(0.4, 0.4, 200 * MS)), vec![Kind::ElasticBuffer]);
    let mut bursts = with_pipe(0.41, 0.38, 200 * MS);
    let said = "put an elastic buffer into pipe 1->2 (run again with --elastic, or: ... | weir \
                buffer | ...): it was full 41 % and empty 38 % of the time, in bursts larger than \
                a pipe";
    assert_eq!(advice(&bursts)[0].text, said);
    bursts.script = true;
    assert!(advice(&bursts)[0].text.contains("pipe 1->2 (... | weir buffer | ...): it was"));
    let mut largest = with_pipe(0.4, 0.4, 5 * MS);
    largest.pipes[0].capacity_bytes = 1 << 20;
    assert_eq!(kinds(&largest), vec![], "a pipe at its limit without bursts cannot be helped");
}

#[test]
fn bursts_are_seen_though_the_writer_lags_behind_a_reader_that_works() {
    // dd in a loop into gzip: while the burst lasts, every few samples find some room.
    let mut bursts = with_pipe(0.38, 0.46, 300 * MS);
    bursts.pipes[0].longest_full_ns = 30 * MS;
    assert_eq!(kinds(&bursts), vec![Kind::ElasticBuffer]);
}

#[test]
fn a_slow_start_before_a_slow_reader_is_no_burst() {
    // An interpreter starts for 150 ms, and then writes faster than is read: no memory helps.
    let mut start = with_pipe(0.7, 0.3, 150 * MS);
    start.pipes[0].longest_turn_ns = 0;
    assert_eq!(kinds(&start), vec![]);
}

#[test]
fn beside_a_buffer_no_other_is_advised() {
    for position in [0, 1] {
        let mut buffered = with_pipe(0.4, 0.4, 200 * MS);
        buffered.stages[position].label = "weir buffer --rate 10M".to_string();
        assert_eq!(kinds(&buffered), vec![]);
        let mut buffered = with_pipe(0.4, 0.4, 5 * MS);
        buffered.stages[position].relay = true;
        assert_eq!(kinds(&buffered), vec![]);
    }
}

#[test]
fn the_locale_is_blamed_only_where_it_is_used_and_costs() {
    let mut utf8 = run(vec![stage("cat f", [50, 0, 0, 950]), stage("sort -k4", [950, 0, 50, 0])]);
    assert_eq!(kinds(&utf8), vec![]);
    utf8.stages[1].locale = Some("en_US.UTF-8".to_string());
    let found = advice(&utf8);
    assert_eq!(found[0].kind, Kind::CLocale);
    assert!(found[0].text.contains("LC_ALL=C for 2 sort -k4"), "{}", found[0].text);
    utf8.stages[1].program = "mawk".to_string();
    assert_eq!(kinds(&utf8), vec![]);
}

#[test]
fn a_one_cpu_decompressor_beside_idle_cpus() {
    let mut zipped =
        run(vec![stage("gzip -dc f.gz", [950, 0, 0, 50]), stage("wc -l", [100, 0, 900, 0])]);
    let found = advice(&zipped);
    assert_eq!(found[0].kind, Kind::ParallelCompressor);
    assert!(found[0].gain_limit < 2.0, "two CPUs cannot more than halve it");
    zipped.cpus = 1.0;
    assert!(!kinds(&zipped).contains(&Kind::ParallelCompressor));
}

#[test]
fn tiny_writes_are_shown_with_their_size() {
    let mut tiny =
        run(vec![stage("python3 -u g.py", [950, 0, 0, 50]), stage("wc", [50, 0, 950, 0])]);
    tiny.stages[0].write_calls = 1_000_000;
    tiny.stages[0].write_bytes = 14_000_000;
    tiny.stages[0].system_ns = 600 * MS;
    let found = advice(&tiny);
    assert_eq!(found[0].kind, Kind::LargerWrites);
    let said = "writes 14 bytes a call in 1.0 million calls: leave out -u";
    assert!(found[0].text.contains(said), "{}", found[0].text);
    tiny.stages[0].write_bytes = 4_000_000_000;
    assert_eq!(kinds(&tiny), vec![]);
}

#[test]
fn full_cpus_ask_for_more_only_when_stages_waited_for_them() {
    let stages = vec![stage("a", [900, 100, 0, 0]), stage("b", [900, 100, 0, 0])];
    assert_eq!(kinds(&run(stages)), vec![Kind::MoreCpus]);
    assert_eq!(kinds(&run(vec![stage("a", [990, 0, 0, 0]), stage("b", [950, 0, 50, 0])])), vec![]);
}
