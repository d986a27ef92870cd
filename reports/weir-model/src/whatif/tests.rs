//! Forecasts of pipelines whose outcome is plain.

use super::*;

/// A report of `cat | gzip | md5sum`: the second stage computes 8 s, the others 1 s each.
fn report(cpus: u32, capacity: u64, cpu_s: [f64; 3], program: &str) -> String {
    let stage = |index: usize, program: &str, bytes_in: u64, bytes_out: u64| {
        format!(
            "{{\"index\":{index},\"command\":\"{program}\",\"program\":\"{program}\",\"wall_s\":10.0,\
             \"busy\":{},\"cpu_s\":{},\"bytes_in\":{bytes_in},\"bytes_out\":{bytes_out},\
             \"pipe_bytes_in\":null,\"pipe_bytes_out\":{bytes_out},\"read_calls\":{},\
             \"write_calls\":{},\"most_tasks\":1,\"failure\":null}}",
            cpu_s[index - 1] / 10.0,
            cpu_s[index - 1],
            bytes_in / 65_536,
            bytes_out / 65_536
        )
    };
    let pipe = |from: usize| {
        format!(
            "{{\"from\":{from},\"to\":{},\"capacity_bytes\":{capacity},\"longest_empty_s\":0.1}}",
            from + 1
        )
    };
    format!(
        "{{\"schema\":\"weir.run/1\",\"mode\":\"pipeline\",\"wall_s\":10.0,\"cpus\":{cpus},\
         \"stages\":[{},{},{}],\"pipes\":[{},{}],\"host\":{{\"others_cpus\":0.0}}}}",
        stage(1, "cat", 1 << 30, 1 << 30),
        stage(2, program, 1 << 30, 1 << 28),
        stage(3, "cat", 1 << 28, 0),
        pipe(1),
        pipe(2)
    )
}

fn host() -> Machine {
    Machine::named("present").expect("the present host")
}

fn speedup(text: &str, changes: &Changes) -> f64 {
    forecast(text, &host(), changes).expect("a forecast").speedup()
}

fn near(is: f64, should: f64) -> bool {
    (is / should - 1.0).abs() < 0.05
}

#[test]
fn a_pipeline_on_one_cpu_takes_the_sum_and_on_many_its_slowest_stage() {
    let text = report(1, 65_536, [1.0, 8.0, 1.0], "gzip");
    let on = |cpus| Changes { cpus: Some(cpus), ..Changes::default() };
    assert!(near(speedup(&text, &on(1)), 1.0));
    assert!(near(speedup(&text, &on(8)), 10.0 / 8.0), "{}", speedup(&text, &on(8)));
}

#[test]
fn a_faster_stage_helps_until_the_next_one_holds_it_up() {
    let text = report(4, 65_536, [2.0, 9.9, 1.0], "gzip");
    let faster = |factor| Changes { faster: vec![(2, factor)], ..Changes::default() };
    assert!(near(speedup(&text, &faster(2.0)), 2.0));
    assert!(near(speedup(&text, &faster(100.0)), 9.9 / 2.0), "{}", speedup(&text, &faster(100.0)));
    let other = Changes { faster: vec![(1, 2.0)], ..Changes::default() };
    assert!(near(speedup(&text, &other), 1.0), "it is not what held the pipeline up");
}

#[test]
fn a_stage_that_writes_at_the_end_keeps_the_next_one_waiting() {
    let text = report(4, 65_536, [5.0, 5.0, 5.0], "sort");
    let found = forecast(&text, &host(), &Changes::default()).expect("a forecast");
    assert!(found.notes.iter().any(|note| note.contains("sort")), "{:?}", found.notes);
    // Nothing is read while the first writes: the waits of the third are at least half.
    assert!(found.stages[2].before.waits_in > 0.4, "{found:?}");
}

/// `tail -n +2` was taken to write only after it had read everything.
#[test]
fn a_tail_from_a_line_on_writes_while_it_reads() {
    for (program, words) in [("tail", "tail -n +2"), ("sort", "sort -m -")] {
        let text = report(4, 65_536, [1.0, 5.0, 5.0], program);
        let command = format!("\"command\":\"{program}\"");
        let text = text.replace(&command, &format!("\"command\":\"{words}\""));
        let found = forecast(&text, &host(), &Changes::default()).expect("a forecast");
        assert!(!found.notes.iter().any(|note| note.contains("read everything")), "{found:?}");
        assert!(found.stages[2].before.waits_in < 0.2, "{found:?}");
    }
}

#[test]
fn larger_pipes_save_wake_ups_where_two_stages_share_a_cpu() {
    let text = report(1, 4096, [3.0, 4.0, 3.0], "gzip");
    let large = Changes { pipe_bytes: Some(1 << 20), ..Changes::default() };
    let small = Changes { pipe_bytes: Some(4096), ..Changes::default() };
    assert!(speedup(&text, &large) > speedup(&text, &small));
    assert!(near(speedup(&text, &small), 1.0));
}

/// A quarter of a byte stayed in a pipe of a page: its writer waited for the whole page, its reader for
/// a byte, and the forecast never ended.
#[test]
fn parts_of_bytes_stop_no_pipe() {
    let text = report(2, 4096, [0.1, 8.0, 3.0], "awk");
    // The second writes 40960.25 bytes for each 64 KiB, and the third reads 512 at once.
    let text = text.replace("\"read_calls\":4096,", "\"read_calls\":2097152,");
    let text = text.replace("\"write_calls\":4096,", "\"write_calls\":20481,");
    let text = text.replace("268435456", "671092736");
    let found = forecast(&text, &host(), &Changes::default()).expect("a forecast");
    assert!(found.predicted_s > 1.0, "{found:?}");
}

#[test]
fn what_is_no_report_is_refused() {
    let refused = |text: &str, word: &str| {
        let error = forecast(text, &host(), &Changes::default()).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    };
    let sound = report(2, 65_536, [1.0, 1.0, 1.0], "gzip");
    refused("", "not a report");
    refused("{}", "schema");
    refused(&sound.replace("weir.run/1", "weir.run/9"), "weir.run/9");
    refused(&sound.replace("\"pipeline\"", "\"script\""), "script");
    refused(&sound.replace("\"wall_s\":10.0,\"cpus\"", "\"wall_s\":0.0,\"cpus\""), "short");
    refused(&sound.replace("\"cpu_s\":1,", "\"cpu_s\":-1,"), "make no sense");
    refused(&sound.replace("1073741824", "null"), "how many bytes");
    // Such stages waited for each other for ever.
    for pipe in ["\"from\":1,\"to\":1", "\"from\":3,\"to\":2", "\"from\":1,\"to\":3"] {
        refused(&sound.replace("\"from\":2,\"to\":3", pipe), "no pipeline");
    }
    let changes = Changes { faster: vec![(7, 2.0)], ..Changes::default() };
    let error = forecast(&sound, &host(), &changes).expect_err("no stage").to_string();
    assert!(error.contains("no stage 7"), "{error}");
}
