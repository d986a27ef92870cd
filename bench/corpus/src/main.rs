//! Real pipelines, the truth about them by experiment, and what weir says of them.
//!
//! ```text
//! weir-corpus [truth|overhead|advice|koala|tables|list] [--only NAME]... [--append] [--rounds N]
//!             [--results FILE] [--data DIR] [--weir FILE] [--seconds S]
//! ```
//!
//! Without a part it measures truth, overhead and advice. `--append` keeps the results that FILE
//! has, and leaves out what is among them; `--seconds` starts no further pipeline after that time,
//! so that a long run can be made in pieces.

mod corpus;
mod koala;
mod make;
mod pairs;
mod results;
mod run;
mod service;
mod slow;
mod table;
mod truth;

use corpus::{Corpus, Pipeline};
use results::Results;
use run::Place;
use service::Service;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What is asked for.
struct Options {
    parts: Vec<String>,
    only: Vec<String>,
    append: bool,
    rounds: usize,
    results: PathBuf,
    data: PathBuf,
    weir: PathBuf,
    seconds: Option<f64>,
}

const PARTS: [&str; 6] = ["truth", "overhead", "advice", "koala", "tables", "list"];

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| execute(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("weir-corpus: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        parts: Vec::new(),
        only: Vec::new(),
        append: false,
        rounds: 6,
        results: PathBuf::from("target/corpus.jsonl"),
        data: PathBuf::from("target/corpus"),
        weir: PathBuf::from("target/release/weir"),
        seconds: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--only" => options.only.push(value()?),
            "--append" => options.append = true,
            "--rounds" => options.rounds = number(&value()?)? as usize,
            "--results" => options.results = value()?.into(),
            "--data" => options.data = value()?.into(),
            "--weir" => options.weir = value()?.into(),
            "--seconds" => options.seconds = Some(number(&value()?)?),
            part if PARTS.contains(&part) => options.parts.push(part.to_owned()),
            _ => return Err(format!("unknown argument '{word}'")),
        }
    }
    if options.parts.is_empty() {
        options.parts = ["truth", "overhead", "advice"].map(String::from).to_vec();
    }
    Ok(options)
}

fn number(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok().filter(|n| *n > 0.0);
    number.ok_or_else(|| format!("'{text}' is not a number above 0"))
}

fn execute(options: &Options) -> Result<(), String> {
    let corpus = Corpus::load()?;
    for name in &options.only {
        if !corpus.pipelines.iter().any(|pipeline| pipeline.name == *name) {
            return Err(format!("no pipeline is named '{name}'"));
        }
    }
    let has = |part: &str| options.parts.iter().any(|asked| asked == part);
    if has("list") {
        for pipeline in &corpus.pipelines {
            println!("{}\t{}\t{}", pipeline.name, pipeline.field, corpus::text(&pipeline.stages));
        }
        return Ok(());
    }
    let keep = options.append || has("tables");
    let mut results = Results::open(&options.results, keep)?;
    if has("tables") {
        print!("{}", table::all(&results));
        return Ok(());
    }
    std::fs::create_dir_all(&options.data).map_err(|error| error.to_string())?;
    let data = options.data.canonicalize().map_err(|error| error.to_string())?;
    let weir = options.weir.canonicalize();
    let weir = weir.map_err(|error| format!("{}: {error}", options.weir.display()))?;
    let options = &Options { data, weir, ..clone(options) };
    let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    for pipeline in &corpus.pipelines {
        let asked = options.only.is_empty() || options.only.contains(&pipeline.name);
        let parts: Vec<&str> = options.parts.iter().map(String::as_str).collect();
        let left: Vec<&str> = parts
            .into_iter()
            .filter(|part| *part != "koala" && !results.has(part, &pipeline.name))
            .collect();
        if !asked || left.is_empty() {
            continue;
        }
        if end.is_some_and(|end| Instant::now() > end) {
            eprintln!("time is up: continue with --append");
            return Ok(());
        }
        if let Some(tool) = pipeline.missing() {
            println!("SKIPPED: {}: {tool} is not installed", pipeline.name);
            continue;
        }
        if let Err(fault) = measure(&corpus, pipeline, &left, options, &mut results) {
            println!("FAILED: {}: {fault}", pipeline.name);
        }
    }
    if has("koala") {
        scripts(&corpus, options, &mut results)?;
    }
    print!("{}", table::all(&results));
    Ok(())
}

fn clone(options: &Options) -> Options {
    Options {
        parts: options.parts.clone(),
        only: options.only.clone(),
        results: options.results.clone(),
        data: options.data.clone(),
        weir: options.weir.clone(),
        ..*options
    }
}

fn measure(
    corpus: &Corpus,
    pipeline: &Pipeline,
    parts: &[&str],
    options: &Options,
    results: &mut Results,
) -> Result<(), String> {
    corpus.make_inputs(pipeline, &options.data)?;
    let mut place = Place { data: options.data.clone(), env: pipeline.env.clone(), one_cpu: false };
    let service = pipeline.service.as_ref().map(|name| Service::start(name, &mut place));
    let service = service.transpose()?;
    let server = service.as_ref().and_then(Service::pid);
    for part in parts {
        eprintln!("{}: {part}", pipeline.name);
        match *part {
            "truth" => {
                let found =
                    truth::measure(pipeline, &place, &options.weir, options.rounds, server)?;
                results.add(&found)?;
            }
            "overhead" => {
                let found = pairs::overhead(pipeline, &place, &options.weir, options.rounds)?;
                results.add(&found)?;
            }
            _ => {
                for one in pairs::advice(pipeline, &place, &options.weir, options.rounds)? {
                    results.add(&one)?;
                }
                let done = serde_json::json!({ "part": "advised", "name": pipeline.name });
                results.add(&done)?;
            }
        }
    }
    Ok(())
}

fn scripts(corpus: &Corpus, options: &Options, results: &mut Results) -> Result<(), String> {
    let Some(checkout) = std::env::var_os("KOALA") else {
        println!("SKIPPED: koala: KOALA does not name a checkout");
        return Ok(());
    };
    let reads_prose = corpus.pipelines.iter().find(|p| p.inputs.iter().any(|i| i == "prose"));
    corpus.make_inputs(reads_prose.ok_or("no pipeline reads prose")?, &options.data)?;
    let place = Place { data: options.data.clone(), env: BTreeMap::new(), one_cpu: false };
    for (name, script) in koala::scripts(&PathBuf::from(checkout))? {
        if !results.has("koala", &name) {
            eprintln!("{name}");
            let found = koala::measure(&name, &script, &place, &options.weir, options.rounds)?;
            results.add(&found)?;
        }
    }
    Ok(())
}
