//! `weir run`: runs a pipeline and says where the time went.
//!
//! In the order of flow: `plan` turns the command line into a job, `elastic` puts buffers in where
//! they are wanted (`evidence` is what earlier runs showed), the runner of weir-measure runs
//! it under the eyes of `watch`, policy judges the record, [`crate::report`] writes it down, and
//! `status` gives the shell's own exit status.

mod compare;
mod elastic;
mod evidence;
mod live;
mod plan;
mod rounds;
mod several;
mod status;
mod watch;

pub use compare::Compared;
pub use plan::is_program;

use crate::args::{PIPE_BYTES, PipeSize, RunOptions};
use crate::fault::{Fault, tell};
use crate::output::print_json;
use crate::report::{self, Detail, Look, Report};
use signal_hook::consts::SIGXFSZ;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use weir_cli_sys::closed_standard_descriptors;
use weir_measure::machine;
use weir_measure::proc::{Descriptor, Kind};
use weir_measure::record::{Ending, Host, Run};
use weir_measure::runner::{self, Job};

/// Runs the verb.
pub fn run(options: &RunOptions) -> Result<ExitCode, Fault> {
    let mut plans = plan::plans(options)?;
    if plans.len() > 1 {
        return several::compare(options, plans);
    }
    let Some(mut planned) = plans.pop() else { return Err(Fault::usage("nothing to run")) };
    if planned.stages.is_empty() {
        return Ok(nothing(options));
    }
    let notes = elastic::put_in(options.elastic.as_ref(), &mut planned)?;
    let closed = closed_standard_descriptors();
    let (command, negated) = (planned.command.clone(), planned.negated);
    let job = job(options, planned, closed);
    let standard = options.compare.then(rounds::Standard::keep).transpose()?;
    let outputs = Outputs::open(options, closed);
    let mut watch = watch::Watch::new(options.live, &job);
    let mut run = runner::run(&job, &mut watch)
        .map_err(|error| Fault::failed(format!("cannot make a pipe: {error}")))?;
    watch.finish();
    run.notes.extend(notes);
    let ending = status::status(&run, options.pipefail, negated);
    let mut report = judge(run, &command, closed, ending.shell_status());
    elastic::tell_losses(&report.run);
    elastic::remember(&report);
    if standard.is_some() && report.run.stages.iter().any(|stage| stage.failure.is_some()) {
        tell("nothing is compared: not all stages could be started");
    } else if let Some(standard) = standard.filter(|_| report.run.signals.is_empty()) {
        report.compared = compare::compare(&job, &report.advice, options.runs, &standard)?;
        elastic::remember_compared(&report);
    }
    outputs.write(&report);
    Ok(ending.take())
}

/// A text of blanks and comments: a shell does nothing then, and is content.
fn nothing(options: &RunOptions) -> ExitCode {
    let outputs = Outputs::open(options, closed_standard_descriptors());
    let (online_cpus, cpus) = (machine::online_cpus(), machine::allowed_cpus().len() as u32);
    let run = Run {
        ending: Some(Ending::Code(0)),
        cpus: machine::usable_cpus(),
        host: Host { online_cpus, cpus, ..Host::default() },
        ..Run::default()
    };
    outputs.write(&judge(run, "", [false; 3], 0));
    ExitCode::SUCCESS
}

/// The job that runs a plan.
fn job(options: &RunOptions, planned: plan::Planned, closed: [bool; 3]) -> Job {
    Job {
        stages: planned.stages,
        script: planned.script,
        whole_because: planned.whole_because,
        shell: planned.shell,
        shell_options: planned.shell_options,
        pipe_bytes: match options.pipe_size {
            PipeSize::Auto => PIPE_BYTES,
            PipeSize::Bytes(bytes) => bytes,
        },
        pipe_auto: options.pipe_size == PipeSize::Auto,
        tick_ns: options.sample_ms * 1_000_000,
        closed,
    }
}

fn judge(mut run: Run, command: &str, closed: [bool; 3], status: i32) -> Report {
    for (closed, note) in closed.iter().zip([
        "standard input was closed: the first stage has none",
        "standard output was closed: the last stage has none",
        "standard error was closed",
    ]) {
        if *closed {
            run.notes.push(String::from(note));
        }
    }
    let flows = |fd: Option<Descriptor>| {
        fd.is_some_and(|fd| matches!(fd.kind, Kind::Pipe | Kind::Socket | Kind::Device))
    };
    let (input, output) = (Descriptor::of(io::stdin()), Descriptor::of(io::stdout()));
    let facts = run.facts(flows(input), flows(output));
    let verdict = weir_policy::verdict::judge(&facts);
    let past = elastic::past(&run, command);
    let advice = weir_policy::advice::advise(&facts, &verdict, &past);
    Report { run, command: command.to_owned(), verdict, advice, status, compared: None }
}

/// Where the report goes; opened before the run, so that a bad name is told at once and still
/// costs nobody the pipeline's work.
struct Outputs {
    text: Option<Target>,
    json: Option<Target>,
    detail: Detail,
}

enum Target {
    Stdout,
    Stderr,
    File(File, String),
}

impl Outputs {
    fn open(options: &RunOptions, closed: [bool; 3]) -> Outputs {
        let text = match &options.output {
            _ if options.quiet => None,
            Some(path) => open(path, "report"),
            None if closed[2] => None,
            None => Some(Target::Stderr),
        };
        let json = options.json.as_ref().and_then(|path| match path.as_os_str() == "-" {
            true => Some(Target::Stdout),
            false => open(path, "JSON report"),
        });
        Outputs { text, json, detail: options.detail() }
    }

    fn write(&self, report: &Report) {
        if let Some(target) = &self.text {
            target.write(&report::text(report, &target.look(self.detail)));
        }
        if let Some(target) = &self.json {
            target.write(&report::json(report));
        }
    }

    /// The same of a comparison of several pipelines.
    fn write_several(&self, several: &report::Several) {
        if let Some(target) = &self.text {
            target.write(&report::several_text(several, &target.look(self.detail)));
        }
        if let Some(target) = &self.json {
            target.write(&report::several_json(several));
        }
    }
}

fn open(path: &Path, what: &str) -> Option<Target> {
    match File::create(path) {
        Ok(file) => Some(Target::File(file, path.display().to_string())),
        Err(error) => {
            let path = path.display();
            tell(&format!(
                "cannot write the {what} to '{path}': {error}; the pipeline runs all the same"
            ));
            None
        }
    }
}

impl Target {
    fn look(&self, detail: Detail) -> Look {
        match self {
            Target::Stderr => Look::of_stderr(detail),
            _ => Look::of_file(detail),
        }
    }

    fn write(&self, text: &str) {
        // A file that may not be so large is an error, and not the end of weir. Not ignored from
        // the start: the stages would inherit that.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        let (result, name) = match self {
            Target::Stdout => return print_json(text).unwrap_or_else(|fault| fault.tell()),
            Target::Stderr => (io::stderr().lock().write_all(text.as_bytes()), "standard error"),
            Target::File(file, name) => ((&*file).write_all(text.as_bytes()), name.as_str()),
        };
        if let Err(error) = result {
            tell(&format!("cannot write the report to {name}: {error}"));
        }
    }
}
