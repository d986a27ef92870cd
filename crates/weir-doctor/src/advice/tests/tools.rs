//! Advice that goes by programs and their options, and the commands it leads to.

use super::*;
use crate::advice::tools::threads;
use crate::facts::Io;

/// A pipeline of these stages, in which the one at `busy` is held up by nobody.
fn pipeline(labels: &[&str], busy: usize) -> Run {
    let of = |(at, label): (usize, &&str)| match at {
        at if at == busy => stage(label, [950, 0, 0, 50]),
        at if at < busy => stage(label, [150, 0, 0, 850]),
        _ => stage(label, [150, 0, 850, 0]),
    };
    let mut run = run(labels.iter().enumerate().map(of).collect());
    let pipe = |from| Pipe { from, to: from + 1, capacity_bytes: 262_144, ..Pipe::default() };
    run.pipes = (1..labels.len()).map(|to| pipe(to - 1)).collect();
    run
}

/// What was advised, with the whole command that follows it.
fn commands(run: &Run) -> Vec<(AdviceKind, Option<String>)> {
    commands_with(run, &[])
}

/// The same where these programs are installed.
fn commands_with(run: &Run, installed: &[&str]) -> Vec<(AdviceKind, Option<String>)> {
    let labels: Vec<&str> = run.stages.iter().map(|stage| stage.label.as_str()).collect();
    let command = labels.join(" | ");
    let whole = |advice: &Advice| {
        rewrite(run, advice, &|name| installed.contains(&name))
            .and_then(|changes| apply(&command, &labels, &changes))
    };
    advice(run).iter().map(|advice| (advice.kind, whole(advice))).collect()
}

fn typed(text: &str) -> Option<String> {
    Some(text.to_string())
}

#[test]
fn records_are_not_packed_for_a_stage_that_unpacks_them() {
    let moves = |labels: &[&str], busy, bytes| {
        let mut run = pipeline(labels, busy);
        run.stages.iter_mut().for_each(|stage| stage.pipe_out_bytes = Some(bytes));
        run
    };
    let found = commands(&moves(&["bcftools view -Ob a.bcf", "bcftools stats"], 0, 5 << 20));
    let wanted = typed("bcftools view -Ou a.bcf | bcftools stats");
    assert!(found.contains(&(AdviceKind::UncompressedStream, wanted)), "{found:?}");
    // Each of a chain is changed, in one piece of advice.
    let chain = ["bcftools view a.bcf", "bcftools norm -Oz", "bcftools query -f x"];
    let found = commands(&moves(&chain, 1, 20 << 20));
    let wanted = typed("bcftools view -Ou a.bcf | bcftools norm -Ou | bcftools query -f x");
    assert!(found.contains(&(AdviceKind::UncompressedStream, wanted)), "{found:?}");
    // What takes little time is left as it is, and so is what another program reads.
    let mut idle = moves(&["bcftools view -Ob a.bcf", "bcftools stats"], 0, 5 << 20);
    idle.stages.iter_mut().for_each(|stage| stage.user_ns = 100 * MS);
    assert!(!kinds(&idle).contains(&AdviceKind::UncompressedStream));
    let others = moves(&["bcftools view -Ob a.bcf", "md5sum"], 0, 5 << 20);
    assert!(!kinds(&others).contains(&AdviceKind::UncompressedStream));
    // "At most 61x", and 1.1x was gained: the pileup itself stays.
    let of = |bytes| moves(&["bcftools mpileup -f ref.fa a.bam", "bcftools call -mv"], 0, bytes);
    let gain = |run: &Run| {
        let found =
            advice(run).into_iter().find(|found| found.kind == AdviceKind::UncompressedStream);
        found.map(|found| found.gain)
    };
    assert_eq!(gain(&of(4 << 20)), None, "too little to pack");
    // Where others have the CPUs for most of the time, that is not saved.
    let mut crowded = of(1 << 20);
    crowded.stages[0].times = Times { cpu_ns: 340 * MS, queue_ns: 640 * MS, ..Times::default() };
    crowded.stages[0].user_ns = 340 * MS;
    assert_eq!(gain(&crowded), None, "it was perhaps 3.0x");
    let some = gain(&of(15 << 20)).expect("advice");
    assert!(matches!(some, Gain::About(factor) if (1.1..1.6).contains(&factor)), "{some:?}");
}

#[test]
fn a_program_with_threads_gets_those_that_are_idle() {
    let found = commands(&pipeline(&["samtools view -h a.bam", "bgzip"], 1));
    let wanted = typed("samtools view -h a.bam | bgzip -@ 2");
    assert!(found.contains(&(AdviceKind::MoreThreads, wanted)), "{found:?}");
    // It already has two, others use the CPUs, or its work is too small a part of theirs.
    let told = pipeline(&["samtools view -h a.bam", "bgzip -@2"], 1);
    assert!(!kinds(&told).contains(&AdviceKind::MoreThreads));
    let mut crowded = pipeline(&["samtools view -h a.bam", "bgzip"], 1);
    crowded.host.idle_cpus = Some(0.1);
    assert!(!kinds(&crowded).contains(&AdviceKind::MoreThreads));
}

#[test]
fn threads_are_shared_out_by_what_the_stages_used() {
    let mut run = pipeline(&["minimap2 -t 1 a b", "samtools sort -"], 0);
    run.cpus = 8.0;
    run.stages[0].user_ns = 3000 * MS;
    run.stages[1].user_ns = 1000 * MS;
    assert_eq!((threads(&run, 0), threads(&run, 1)), (6, 2));
    // The one that held nothing up would do so next.
    run.host.idle_cpus = Some(6.0);
    let wanted = typed("minimap2 -t 6 a b | samtools sort -@ 1 -");
    assert!(commands(&run).contains(&(AdviceKind::MoreThreads, wanted)), "{:?}", commands(&run));
    run.stages[1].user_ns = 0;
    assert_eq!(threads(&run, 1), 1, "no stage gets none");
}

#[test]
fn a_copy_that_costs_nothing_stays() {
    let mut costs = pipeline(&["cat big.log", "grep -c x", "cat"], 1);
    in_kernel(&mut costs.stages[1], 300 * MS);
    let found = commands(&costs);
    assert!(found.contains(&(AdviceKind::DirectInput, typed("grep -c x < big.log | cat"))));
    writes(&mut costs.stages[1], 1_000_000, 30_000_000);
    assert!(
        !kinds(&costs).contains(&AdviceKind::DirectInput),
        "the kernel's time is for its writes"
    );
    let mut free = pipeline(&["cat big.log", "grep -c x", "cat"], 1);
    free.stages[0].user_ns = 10 * MS;
    assert!(!kinds(&free).contains(&AdviceKind::DirectInput));
    assert!(!kinds(&pipeline(&["cat a b", "grep -c x"], 1)).contains(&AdviceKind::DirectInput));
}

#[test]
fn ssh_gets_another_cipher_only_where_the_cpu_has_it() {
    let mut run = pipeline(&["cat f", "ssh there 'cat > f'"], 1);
    assert!(!kinds(&run).contains(&AdviceKind::FasterCipher));
    run.host.aes = true;
    let wanted = typed("cat f | ssh -c aes128-gcm@openssh.com there 'cat > f'");
    assert!(commands(&run).contains(&(AdviceKind::FasterCipher, wanted)));
    run.stages[1].label = "ssh -c aes256-ctr there 'cat > f'".to_string();
    assert!(!kinds(&run).contains(&AdviceKind::FasterCipher), "a cipher was chosen");
    // The cipher was blamed for what compressing took.
    run.stages[1].label = "ssh -C there 'cat > f'".to_string();
    assert!(!kinds(&run).contains(&AdviceKind::FasterCipher), "it compresses");
}

#[test]
fn no_command_is_made_of_what_is_not_installed_or_not_understood() {
    let mut run = pipeline(&["cat f", "gzip -9"], 1);
    let of = |installed: &[&str]| {
        let mut all = commands_with(&run, installed).into_iter();
        all.find(|(kind, _)| *kind == AdviceKind::ParallelCompressor)
    };
    assert_eq!(of(&[]), Some((AdviceKind::ParallelCompressor, None)));
    assert_eq!(of(&["pigz"]), Some((AdviceKind::ParallelCompressor, typed("cat f | pigz -9"))));
    let advice = &advice(&run)[0];
    let changes = rewrite(&run, advice, &|_| true).expect("a change");
    // The text had more in it than these stages.
    assert_eq!(apply("! cat f | gzip -9", &["cat f", "gzip -9"], &changes), None);
    run.script = true;
    assert_eq!(rewrite(&run, advice, &|_| true), None);
}

#[test]
fn little_input_is_not_shared_out_in_blocks() {
    let mut small = pipeline(&["tar c d", "zstd -19"], 1);
    small.stages[1].pipe_in_bytes = Some(1 << 20);
    assert!(!kinds(&small).contains(&AdviceKind::ParallelCompressor));
    small.stages[1].pipe_in_bytes = Some(1 << 30);
    assert!(kinds(&small).contains(&AdviceKind::ParallelCompressor));
}

/// `xz -T0` and `xz -T2` stood beside each other. `xz -9` on 16 MB was told to take `-T2`, and that
/// is one block.
#[test]
fn a_compressor_gets_one_piece_of_advice_on_threads_if_it_has_blocks_for_them() {
    let of = |label: &str, bytes: u64| {
        let mut run = pipeline(&["tar c d", label], 1);
        run.stages[1].pipe_in_bytes = Some(bytes);
        kinds(&run)
    };
    assert_eq!(of("xz -9", 1 << 30), vec![AdviceKind::ParallelCompressor]);
    assert_eq!(of("xz -1", 8 << 20), vec![AdviceKind::ParallelCompressor], "its blocks are small");
    for label in ["xz -9", "xz -9 -T1", "xz", "xz -1"] {
        assert_eq!(of(label, 3 << 20), vec![], "{label}");
    }
    assert_eq!(of("xz -9 -T1", 100 << 20), vec![]);
    assert_eq!(of("xz -9 -T1", 1 << 30), vec![AdviceKind::MoreThreads]);
    // 100 MB that were packed into 20 MB.
    let mut first = pipeline(&["xz -c big", "cat"], 0);
    first.stages[0].pipe_out_bytes = Some(20 << 20);
    reads(&mut first.stages[0], 1600, 100 << 20);
    assert_eq!(kinds(&first), vec![AdviceKind::ParallelCompressor]);
}

#[test]
fn a_large_pipe_grows_only_where_much_is_to_be_gained() {
    let mut waits = with_pipe(0.4, 0.4, 5 * MS);
    waits.pipes[0].capacity_bytes = 262_144;
    assert_eq!(kinds(&waits), vec![AdviceKind::LargerPipe]);
    waits.stages[0].times.output_ns = 200 * MS;
    waits.stages[0].times.cpu_ns = 800 * MS;
    waits.stages[0].user_ns = 800 * MS;
    assert!(!kinds(&waits).contains(&AdviceKind::LargerPipe), "at most 1.25x");
}

#[test]
fn lines_that_come_slowly_are_passed_on_to_a_loop_that_works_on_each() {
    let labels = ["tail -f log", "grep x", "while read -r l; do work \"$l\"; done"];
    let mut run = pipeline(&labels, 0);
    let waits = |input_ms: u64, cpu_ms: u64| Times {
        input_ns: input_ms * MS,
        cpu_ns: cpu_ms * MS,
        ..Times::default()
    };
    (run.stages[1].times, run.stages[2].times) = (waits(600, 5), waits(600, 400));
    let io = |read_calls, write_calls| Io {
        read_calls,
        read_bytes: 64 * read_calls,
        write_calls,
        write_bytes: 4000,
    };
    run.stages[1].io = Some(io(60, 1));
    let found = commands(&run);
    let wanted =
        typed("tail -f log | grep --line-buffered x | while read -r l; do work \"$l\"; done");
    let kind = AdviceKind::LineBuffering;
    assert!(found.iter().any(|(found, _)| *found == kind), "{found:?}");
    assert_eq!(
        rewrite(
            &run,
            &Advice { kind, stage: Some(1), pipe: None, gain: Gain::AtMost(1.0) },
            &|_| false,
        )
        .and_then(|changes| apply(&labels.join(" | "), &labels, &changes)),
        wanted
    );
    // It passes lines on as they come, its reader needs them all, or there is little to do behind.
    let mut passes = run.clone();
    passes.stages[1].io = Some(io(60, 60));
    assert!(!kinds(&passes).contains(&kind));
    let mut sorts = run.clone();
    sorts.stages[2].label = String::from("sort");
    assert!(!kinds(&sorts).contains(&kind));
    run.stages[2].times = waits(950, 50);
    assert!(!kinds(&run).contains(&kind));
}

/// The advice put `LC_ALL=C` before another one, which held.
#[test]
fn a_locale_that_was_typed_stays() {
    let of = |label: &str| {
        let mut run = pipeline(&["cat f", label], 1);
        run.stages[1].program = "sort".to_string();
        run.stages[1].locale = Some("en_US.UTF-8".to_string());
        kinds(&run).contains(&AdviceKind::CLocale)
    };
    assert!(of("sort") && of("LANG=en_US.UTF-8 sort") && !of("LC_ALL=en_US.UTF-8 sort"));
}
