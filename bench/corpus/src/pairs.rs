//! Pairs in random order: what running under weir costs, and what following its advice gains.

use crate::corpus::{Pipeline, text};
use crate::run::Place;
use crate::truth::reported;
use serde::{Deserialize, Serialize};
use std::path::Path;
use weir_measure::pairs::PairOrder;

/// bash and weir over one pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overhead {
    pub part: String,
    pub name: String,
    /// Wall times, one a round.
    pub bash_s: Vec<f64>,
    pub weir_s: Vec<f64>,
    /// weir with pipes as small as bash's.
    pub small_s: Vec<f64>,
    /// bash once more: what the same thing differs from itself.
    #[serde(default)]
    pub again_s: Vec<f64>,
    /// Whether all of them wrote the same bytes and ended with the same status.
    pub same: bool,
}

/// Runs rounds of bash and weir.
pub fn overhead(
    pipeline: &Pipeline,
    place: &Place,
    weir: &Path,
    rounds: usize,
) -> Result<Overhead, String> {
    let whole = text(&pipeline.stages);
    let bash: (&Path, &[&str]) = (Path::new("bash"), &["-c"]);
    let small: &[&str] = &["run", "--quiet", "--pipe-size", "64K"];
    let ways = [bash, (weir, &["run", "--quiet"]), (weir, small), bash];
    let run = |way: usize| {
        let (program, args) = ways[way];
        place.whole(program, &[args, &[whole.as_str()]].concat())
    };
    // The first run warms the caches.
    let first = run(0)?;
    let (mut times, mut same) = ([const { Vec::new() }; 4], true);
    let mut order = PairOrder::new(7);
    for _ in 0..rounds {
        let mut round = [0, 1, 2, 3];
        order.shuffle(&mut round);
        for way in round {
            let found = run(way)?;
            same &= (found.output, found.status) == (first.output, first.status);
            times[way].push(found.wall_s);
        }
    }
    let [bash_s, weir_s, small_s, again_s] = times;
    let (part, name) = (String::from("overhead"), pipeline.name.clone());
    Ok(Overhead { part, name, bash_s, weir_s, small_s, again_s, same })
}

/// A piece of advice, followed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Followed {
    pub part: String,
    pub name: String,
    pub kind: String,
    /// The advice in weir's words; none where it was followed by hand although weir did not give it.
    pub text: Option<String>,
    /// The gain that was promised, and whether that was a bound.
    pub promised: Option<f64>,
    pub bound: bool,
    pub before: String,
    /// The command under the advice; none where nothing in the text follows it.
    pub after: Option<String>,
    pub before_s: Vec<f64>,
    pub after_s: Vec<f64>,
    pub same: bool,
}

/// The advice that needs other hardware.
const MORE_CPUS: &str = "more-cpus";

/// Follows each piece of advice that weir gives on a pipeline, and those of the list.
pub fn advice(
    pipeline: &Pipeline,
    place: &Place,
    weir: &Path,
    rounds: usize,
) -> Result<Vec<Followed>, String> {
    let before = text(&pipeline.stages);
    let (report, _) = reported(place, weir, &before)?;
    let mut pieces = report["advice"].as_array().cloned().unwrap_or_default();
    // Twice the CPUs can be had where one was taken away.
    let one_cpu = Place { one_cpu: true, ..place.clone() };
    let (confined, _) = reported(&one_cpu, weir, &before)?;
    pieces.retain(|piece| piece["kind"] != MORE_CPUS);
    let confined = confined["advice"].as_array().cloned().unwrap_or_default();
    pieces.extend(confined.into_iter().filter(|piece| piece["kind"] == MORE_CPUS));
    let mut all = Vec::new();
    for piece in &pieces {
        let kind = piece["kind"].as_str().unwrap_or_default();
        let by_hand = pipeline.follow.iter().find(|follow| follow.kind == kind);
        let rewritten = piece["command"].as_str().map(str::to_owned);
        all.push(Followed {
            text: piece["text"].as_str().map(str::to_owned),
            promised: piece["expected_speedup"].as_f64(),
            bound: piece["gain"] == "bound",
            after: rewritten.or_else(|| by_hand.map(|follow| text(&follow.stages))),
            ..nothing(pipeline, kind, &before)
        });
    }
    let given: Vec<String> = all.iter().map(|followed| followed.kind.clone()).collect();
    for follow in pipeline.follow.iter().filter(|follow| !given.contains(&follow.kind)) {
        let after = Some(text(&follow.stages));
        all.push(Followed { after, ..nothing(pipeline, &follow.kind, &before) });
    }
    for followed in &mut all {
        compare(followed, pipeline.check.as_deref().unwrap_or("cat"), place, weir, rounds)?;
    }
    Ok(all)
}

fn nothing(pipeline: &Pipeline, kind: &str, before: &str) -> Followed {
    Followed {
        part: String::from("advice"),
        name: pipeline.name.clone(),
        kind: kind.to_owned(),
        text: None,
        promised: None,
        bound: false,
        before: before.to_owned(),
        after: None,
        before_s: Vec::new(),
        after_s: Vec::new(),
        same: true,
    }
}

fn compare(
    followed: &mut Followed,
    check: &str,
    place: &Place,
    weir: &Path,
    rounds: usize,
) -> Result<(), String> {
    let before = followed.before.clone();
    let by_size = followed.kind == "larger-pipe";
    let by_cpus = followed.kind == MORE_CPUS;
    let after = match &followed.after {
        Some(after) => after.clone(),
        None if by_size || by_cpus => before.clone(),
        None => return Ok(()),
    };
    let confined = Place { one_cpu: by_cpus, ..place.clone() };
    if !by_size && !by_cpus {
        followed.same = place.checked(&before, check)? == place.checked(&after, check)?;
    }
    let run = |under: bool| {
        let text = if under { &after } else { &before };
        let size = if under { "auto" } else { "256K" };
        match by_size {
            true => place.whole(weir, &["run", "--quiet", "--pipe-size", size, text]),
            false if under => place.whole(Path::new("bash"), &["-c", text]),
            false => confined.whole(Path::new("bash"), &["-c", text]),
        }
    };
    let mut order = PairOrder::new(11);
    for _ in 0..rounds {
        let mut round = [false, true];
        order.shuffle(&mut round);
        for under in round {
            let found = run(under)?;
            followed.same &= found.status == 0 || before.contains("head");
            let times = if under { &mut followed.after_s } else { &mut followed.before_s };
            times.push(found.wall_s);
        }
    }
    Ok(())
}
