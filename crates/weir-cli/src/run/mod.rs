//! `weir run`: runs a pipeline and reports where the time went.
//!
//! A run passes through these modules in this order: `plan` turns the command line into a job, `elastic`
//! puts buffers in where they are wanted (`evidence` has what earlier runs showed), the runner of
//! `weir-measure` runs the job while `watch` looks on, `weir-doctor` judges the measurements,
//! [`crate::report`] writes the report, and `status` gives the exit status that a shell would have.

mod bars;
mod compare;
mod container;
mod elastic;
mod evidence;
mod inputs;
mod live;
mod otlp;
mod outputs;
mod pages;
mod plan;
mod rates;
mod rounds;
mod sentinel;
mod several;
mod sh;
mod stall;
pub mod status;
mod watch;
mod watching;

use crate::args::{LiveView, RunOptions};
use crate::report::{self, Report, Stood};
use crate::why::words;
use outputs::Outputs;
use pages::Pages;
pub use sh::sh;
use std::process::ExitCode;
pub use watching::watch_running;
use weir_command::fault::{Fault, print_message};
use weir_command::output::check_distinct;
use weir_doctor::diagnosis::diagnose;
use weir_doctor::facts::Run;
use weir_doctor::stall::Stall;
use weir_measure::runner::{self, Job};

/// Runs the verb.
pub fn run(options: &RunOptions) -> Result<ExitCode, Fault> {
    let json = options.json.as_deref().filter(|path| path.as_os_str() != "-");
    options.inside.check_stdout(options.json.is_some() && json.is_none())?;
    let named = [
        ("--output", options.output.as_deref()),
        ("--json", json),
        ("--otlp", options.otlp.as_deref().filter(|file| file.as_os_str() != otlp::SEND)),
    ];
    check_distinct(named.into_iter().chain(options.inside.files()))?;
    let mut plans = plan::plans(options)?;
    if plans.len() > 1 {
        return several::compare(options, plans);
    }
    if options.fail_if_slower.is_some() {
        return Err(Fault::usage("--fail-if-slower needs several pipelines to compare"));
    }
    let Some(mut planned) = plans.pop() else { return Err(Fault::usage("nothing to run")) };
    if planned.job.stages.is_empty() {
        return nothing(options, &planned.job);
    }
    let notes = elastic::put_in(options.elastic.as_ref(), &mut planned)?;
    let plan::Planned { mut job, negated, command } = planned;
    let standard = options.compare.then(rounds::Standard::keep).transpose()?;
    let pages = Pages::check(&options.inside)?;
    let spans = otlp::Spans::prepare(options.otlp.as_deref(), &mut job)?;
    let outputs = Outputs::open(options)?;
    let mut watch = watch::Watch::new(options.live, &job, &watch::TAKEN);
    let stall_after = options.why_after.unwrap_or_default().0;
    watch = watch.telling_stalls(stall_after, options.quiet);
    if standard.is_none() {
        watch = watch.without_another();
    }
    let mut run = runner::run(&job, &mut watch)
        .map_err(|error| Fault::failed(format!("cannot make a pipe: {error}")))?;
    watch.finish();
    run.notes.extend(notes);
    let ending = status::status(&run, options.pipefail, negated);
    let mut report = judge(run, &command, ending.shell_status(), watch.stall.take());
    elastic::report_losses(&report.run);
    elastic::remember(&report);
    if let Some(standard) = standard.filter(|_| report.run.signals.is_empty()) {
        if report.run.stages.iter().any(|stage| stage.failure.is_some()) {
            standard.end_by_signals();
            print_message("nothing was compared: not all stages could be started");
        } else {
            report.compared = compare::compare(&job, &report, options.runs, &standard)?;
            elastic::remember_compared(&report);
        }
    }
    outputs.write(&report, report::text, report::json);
    if let Err(fault) = pages.write(&report, options.detail()) {
        fault.print_message();
    }
    if let Some(spans) = spans {
        spans.finish(&report);
    }
    Ok(status::take(ending))
}

/// The text has only blanks and comments. A shell then does nothing and succeeds.
fn nothing(options: &RunOptions, job: &Job) -> Result<ExitCode, Fault> {
    let outputs = Outputs::open(options)?;
    let mut watch = watch::Watch::new(LiveView::Never, job, &[]);
    let run = runner::run(job, &mut watch).map_err(Fault::cannot("make a pipe"))?;
    outputs.write(&judge(run, "", 0, None), report::text, report::json);
    pages::report_none(&options.inside);
    if options.otlp.is_some() {
        print_message("no spans were made: nothing ran");
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds out about a run of this command, and puts it into words.
fn judge(run: Run, command: &str, status: i32, stall: Option<Stall>) -> Report {
    let found = diagnose(&run, command, &elastic::Around::new(&run, command));
    let stood = |stall: Stall| Stood { answer: words::answer(&stall.why), stall };
    Report::new(run, command, found, status, stall.map(stood))
}
