//! The scripts of the Koala suite, from a checkout that the user has (`KOALA=DIR`).
//!
//! Scripts that take one file of text as their first argument run over text made here: by bash, and
//! by weir over bash. None of the suite is part of this program.

use crate::pairs::Overhead;
use crate::run::Place;
use std::path::{Path, PathBuf};
use weir_measure::pairs::PairOrder;

/// Sets whose scripts take a file as their first argument. (Those of `nlp` take a directory.)
const SETS: [&str; 2] = ["oneliners", "unixfun"];

/// The scripts found below a checkout, with their names.
pub fn scripts(checkout: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let mut found = Vec::new();
    for set in SETS {
        let directory = checkout.join(set).join("scripts");
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".sh") && (text.contains("$1") || text.contains("${1")) {
                found.push((format!("koala/{set}/{name}"), path));
            }
        }
    }
    found.sort();
    let none = || format!("{}: no script of {} is there", checkout.display(), SETS.join(", "));
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// Runs a script in rounds by bash and under weir.
pub fn measure(
    name: &str,
    script: &Path,
    place: &Place,
    weir: &Path,
    rounds: usize,
) -> Result<Overhead, String> {
    let script = script.to_string_lossy();
    let ways: [(&Path, Vec<&str>); 2] = [
        (Path::new("bash"), vec![&script, "prose"]),
        (weir, vec!["run", "--quiet", "--", "bash", &script, "prose"]),
    ];
    let run = |way: usize| place.whole(ways[way].0, &ways[way].1);
    let first = run(0)?;
    let (mut times, mut same) = ([const { Vec::new() }; 2], true);
    let mut order = PairOrder::new(13);
    for _ in 0..rounds {
        let mut round = [0, 1];
        order.shuffle(&mut round);
        for way in round {
            let found = run(way)?;
            same &= (found.output, found.status) == (first.output, first.status);
            times[way].push(found.wall_s);
        }
    }
    let [bash_s, weir_s] = times;
    let (part, name) = (String::from("koala"), name.to_owned());
    let (small_s, again_s) = (Vec::new(), Vec::new());
    Ok(Overhead { part, name, bash_s, weir_s, small_s, again_s, same })
}
