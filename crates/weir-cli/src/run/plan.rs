//! Turns the command line into the stages of a job.

use crate::args::{Asked, PipeSize, RunOptions, all_quoted};
use crate::shell::{self, Direct, Pipeline, Plan, PlanError, StageText};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_command::fault::Fault;
use weir_command::sys::closed_standard_descriptors;
use weir_doctor::programs::{is_posix_shell, runs_as_script};
use weir_measure::programs::find_program;
use weir_measure::runner::{
    Job, LARGER_PIPE_BYTES, Launch, StageSpec, files_needed, files_suffice,
};
use weir_measure::sys::spawn::output;

/// A command line that is ready to run.
#[derive(Default)]
pub struct Planned {
    /// The job that runs it.
    pub job: Job,
    /// Whether the status is inverted (`! a | b`).
    pub negated: bool,
    /// The command as typed, for the report.
    pub command: String,
}

/// Returns a job without stages, with the settings of the options.
fn job(options: &RunOptions) -> Job {
    Job {
        pipe_bytes: options.pipe_size.map(|size| match size {
            PipeSize::Auto => LARGER_PIPE_BYTES,
            PipeSize::Bytes(bytes) => bytes,
        }),
        pipe_auto: options.pipe_size == Some(PipeSize::Auto),
        pipefail: options.pipefail,
        tick_ns: options.sample_ms * 1_000_000,
        closed: closed_standard_descriptors(),
        script_pipelines: Some(shell::pipelines),
        profile: options.inside.profiles(),
        trace: options.inside.trace,
        history: options.inside.keeps_history(),
        ..Job::default()
    }
}

/// Shells that have had `set -o pipefail` for a long time.
const PIPEFAIL_SHELLS: [&str; 4] = ["bash", "ksh", "mksh", "zsh"];

/// Shells that read no files of the user before a text, which could give a command another meaning, and in
/// which `exec` changes nothing else.
const REPLACING_SHELLS: [&str; 3] = ["bash", "sh", "dash"];

/// Makes the plans: one, or one for each of several pipelines to compare.
pub fn plans(options: &RunOptions) -> Result<Vec<Planned>, Fault> {
    match &options.asked {
        Asked::Texts(texts) => texts.iter().map(|text| of_text(text, options)).collect(),
        Asked::Words(words) => Ok(vec![of_words(words.as_slice(), job(options))?]),
    }
}

fn of_words(words: &[OsString], job: Job) -> Result<Planned, Fault> {
    let mut stages = Vec::new();
    for words in words.split(|word| word == "|") {
        if words.is_empty() {
            return Err(Fault::usage("a stage is empty: there is nothing before or after a '|'"));
        }
        if words.iter().any(|word| word == "|&") {
            return Err(Fault::usage("'|&' needs a shell: give the pipeline as one text instead"));
        }
        // As a shell would read it: advice repeats it as a command to type.
        let label = all_quoted(words);
        let launch = Launch::Exec { env: Vec::new(), argv: words.to_vec(), text: None };
        stages.push(StageSpec { label, launch, inserted: false });
    }
    let command = stages.iter().map(|stage| stage.label.as_str()).collect::<Vec<_>>().join(" | ");
    // Only scripts without a `#!` line need it, which exec(3) gives to sh.
    let shell = PathBuf::from("/bin/sh");
    let script = starts_others(&stages);
    Ok(Planned { job: Job { stages, script, shell, ..job }, negated: false, command })
}

/// Returns whether the only stage is a script or a build. The user wants to know about what it starts, so weir
/// finds its processes from outside, as it does for a text that runs as a whole.
fn starts_others(stages: &[StageSpec]) -> bool {
    let [stage] = stages else { return false };
    let words: Vec<Cow<'_, str>> = match &stage.launch {
        Launch::Exec { argv, .. } => argv.iter().map(|word| word.to_string_lossy()).collect(),
        Launch::Shell(_) => stage.label.split_whitespace().map(Cow::from).collect(),
    };
    let mut words = words.iter().skip_while(|word| word.contains('='));
    let Some(first) = words.next() else { return false };
    let name = first.rsplit('/').next().unwrap_or(first);
    let has_script = words.any(|word| !word.starts_with('-'));
    runs_as_script(name)
        || (is_posix_shell(name) && has_script)
        || find_program(Path::new(&**first)).is_some_and(|file| is_shell_script(&file))
}

/// Returns whether the first line of a file names a shell, directly or through `env`.
fn is_shell_script(file: &Path) -> bool {
    let Some(start) = beginning(file) else { return false };
    let words = interpreter(&start).unwrap_or_default();
    let names = words.iter().filter_map(|word| Path::new(word).file_name()?.to_str());
    names.into_iter().any(is_posix_shell)
}

/// Reads the first bytes of a file.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    const LENGTH: usize = 256;
    // Opening anything but a regular file may wait for ever.
    let file = std::fs::File::open(Some(path).filter(|path| path.is_file())?).ok()?;
    let mut start = Vec::new();
    file.take(LENGTH as u64).read_to_end(&mut start).ok()?;
    Some(start)
}

/// Returns the words after `#!` in the first line of a script.
fn interpreter(start: &[u8]) -> Option<Vec<&OsStr>> {
    let line = start.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    Some(words.map(OsStr::from_bytes).collect())
}

fn of_text(text: &OsStr, options: &RunOptions) -> Result<Planned, Fault> {
    let shell = find_shell(options.shell.as_deref())?;
    let name = shell.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let known = is_posix_shell(&name);
    let exported = |name: &str| std::env::var_os(format!("BASH_FUNC_{name}%%")).is_some();
    let changed = changed_by(&shell, &name);
    let mut own_reading = false;
    let plan = match text.to_str().map(|text| shell::plan(text, &exported)) {
        // Only the shell can read a text that is not UTF-8.
        None => Plan::Whole,
        Some(Ok(_)) if changed.is_some() => Plan::Whole,
        Some(Ok(Plan::Pipeline(cut))) if known && !reads_alike(&shell, text, &cut) => {
            own_reading = !is_bash(&shell);
            Plan::Whole
        }
        Some(Ok(plan)) => plan,
        // A shell then does nothing and succeeds.
        Some(Err(PlanError::Empty)) => return Ok(Planned::default()),
        // The shell itself decides about syntax.
        Some(Err(PlanError::Syntax(_))) if accepts(&shell, text) => Plan::Whole,
        Some(Err(PlanError::Syntax(error))) => {
            return Err(Fault::usage(format!("syntax error: {error}")));
        }
    };
    let command = text.to_string_lossy().trim().to_owned();
    let shell_options = shell_options(&name, options.pipefail, &plan)?;
    match plan {
        // Too many stages for the limit of open files: the shell needs fewer than measuring does.
        Plan::Pipeline(pipeline) if known && files_suffice(pipeline.stages.len()) => {
            let replaces = REPLACING_SHELLS.contains(&name.as_str());
            let alike = finds_alike();
            let mut stages: Vec<_> = pipeline
                .stages
                .into_iter()
                .map(|stage| spec(stage, replaces && alike, alike))
                .collect();
            let script = starts_others(&stages);
            let mut negated = pipeline.negated;
            if let ([StageSpec { launch: Launch::Shell(lone), .. }], true) =
                (&mut stages[..], negated)
            {
                // It may end the shell that inverts (`! exit 3`, `! kill $$`).
                *lone = text.to_owned();
                negated = false;
            }
            let job = Job { stages, script, shell, shell_options, ..job(options) };
            Ok(Planned { job, negated, command })
        }
        _ if !shell.exists() => {
            let why = "it needs a shell, and neither bash nor sh is installed";
            Err(Fault::failed(format!("cannot run '{command}': {why}")))
        }
        plan => {
            let whole_because = match changed {
                Some(variable) => format!("{variable} may change what {name} does"),
                None if own_reading => format!("{name} does not read it as bash does"),
                None => reason(text, &name, known, &plan),
            };
            let launch = Launch::Shell(text.to_owned());
            let stages = vec![StageSpec { label: command.clone(), launch, inserted: false }];
            let script = true;
            let job = Job { stages, script, whole_because, shell, shell_options, ..job(options) };
            Ok(Planned { job, negated: false, command })
        }
    }
}

/// Returns the variable of the environment that gives bash options, or the file that a shell reads
/// before the text. Either may change what a pipeline means (`pipefail`), so that only the shell can
/// run it.
fn changed_by(shell: &Path, name: &str) -> Option<&'static str> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let of_zsh = || std::env::var_os("ZDOTDIR").or_else(|| std::env::var_os("HOME"));
    let reads = || of_zsh().is_some_and(|place| Path::new(&place).join(".zshenv").exists());
    match () {
        () if has("SHELLOPTS") && (is_bash(shell) || name == "bash") => Some("SHELLOPTS"),
        () if has("BASH_ENV") && name == "bash" => Some("BASH_ENV"),
        () if name == "zsh" && reads() => Some(".zshenv"),
        () => None,
    }
}

fn is_bash(shell: &Path) -> bool {
    std::fs::canonicalize(shell).is_ok_and(|file| file.ends_with("bash"))
}

/// Returns whether a shell reads a text as it was cut, which is asked where the reading leaves doubt. It
/// was cut by the grammar of bash: for others every pipeline is in doubt. To them `&>` may end a command,
/// and `[[` be the name of one. zsh adds a redirection to the pipe of a stage (`echo a > f | cat` writes
/// to both), where bash lets it take the pipe's place.
fn reads_alike(shell: &Path, text: &OsStr, cut: &Pipeline) -> bool {
    let accepts_doubts = || cut.doubts.iter().all(|doubt| accepts(shell, doubt.as_ref()));
    if is_bash(shell) || cut.stages.len() == 1 {
        return accepts_doubts();
    }
    let has = |sign: &str| text.to_str().is_some_and(|text| text.contains(sign));
    // What follows the name of a command is a blank: `[[:digit:]]` is none.
    let tests = ["[[ ", "[[\t", "[[\n"].into_iter().any(has);
    let alike = match shell.ends_with("zsh") {
        true => !has("<") && !has(">"),
        false => !has("&>") && !tests,
    };
    // Where no shell is, stages that need none still run.
    let asked = !shell.exists() || cut.doubts.iter().any(|doubt| **doubt == *text);
    alike && (asked || accepts(shell, text)) && accepts_doubts()
}

/// Returns whether a program is looked up in the same places with a shell and without one. Shells have
/// a list of their own where there is no `PATH`, and bash knows home directories and files to pass over.
fn finds_alike() -> bool {
    let of_home = |place: PathBuf| place.as_os_str().as_bytes().starts_with(b"~");
    let path = std::env::var_os("PATH");
    let plain = |path: OsString| !std::env::split_paths(&path).any(of_home);
    path.is_some_and(plain) && std::env::var_os("EXECIGNORE").is_none()
}

/// The reason why a text runs as a whole.
fn reason(text: &OsStr, shell: &str, known: bool, plan: &Plan) -> String {
    match plan {
        _ if text.to_str().is_none() => String::from("the text is not UTF-8"),
        _ if !known => format!("weir does not know the grammar of {shell}"),
        Plan::Whole => String::from("not one top-level pipeline"),
        Plan::Pipeline(pipeline) => format!(
            "to measure its stages one by one weir would need to open {} files, more than it may \
             (ulimit -n)",
            files_needed(pipeline.stages.len())
        ),
    }
}

/// With `--pipefail`, the option also holds for pipelines inside of stages and scripts.
fn shell_options(shell: &str, pipefail: bool, plan: &Plan) -> Result<Vec<OsString>, Fault> {
    match (pipefail, PIPEFAIL_SHELLS.contains(&shell), plan) {
        (true, true, _) => Ok(vec!["-o".into(), "pipefail".into()]),
        (true, false, Plan::Whole) => Err(Fault::usage(format!(
            "--pipefail: {shell} may not support it, and this is not one pipeline that weir can \
             run stage by stage; use --shell bash"
        ))),
        _ => Ok(Vec::new()),
    }
}

fn spec(stage: StageText, replaces: bool, executes: bool) -> StageSpec {
    let replaced = stage.replaced.filter(|replaced| replaces && can_start(&replaced.program));
    let text = replaced.map_or(stage.shell_text, |replaced| replaced.shell_text);
    let launch = match stage.direct.filter(|_| executes) {
        Some(Direct { env, argv }) => Launch::Exec {
            env: directory()
                .into_iter()
                .chain(env.into_iter().map(|(name, value)| (name.into(), value.into())))
                .collect(),
            argv: argv.into_iter().map(OsString::from).collect(),
            text: Some(text.into()),
        },
        None => Launch::Shell(text.into()),
    };
    StageSpec { label: stage.source, launch, inserted: false }
}

/// Returns `PWD` with the true directory where the environment has none, or a wrong one, as a shell
/// sets it.
fn directory() -> Option<(OsString, OsString)> {
    let file = |path: &Path| {
        std::fs::metadata(path).ok().map(|found: Metadata| (found.dev(), found.ino()))
    };
    let is_here = |path: &Path| path.is_absolute() && file(path) == file(Path::new("."));
    if std::env::var_os("PWD").is_some_and(|path| is_here(Path::new(&path))) {
        return None;
    }
    Some(("PWD".into(), std::env::current_dir().ok()?.into()))
}

/// Returns whether a program is sure to start once it is found. `exec` has error messages of its own, so the
/// shell runs everything that may fail without `exec`.
fn can_start(program: &str) -> bool {
    let start = find_program(Path::new(program)).and_then(|path| beginning(&path));
    let Some(start) = start else { return false };
    interpreter(&start).map_or_else(
        || start.starts_with(b"\x7fELF"),
        |words| {
            let path = words.first().map_or(Path::new(""), Path::new);
            path.is_absolute() && find_program(path).is_some()
        },
    )
}

/// Returns whether the shell finds no fault with the text. (Bash reports some faults and still exits with 0.)
fn accepts(shell: &Path, text: &OsStr) -> bool {
    let mut check = Command::new(shell);
    check.args(["-n", "-c", "--"]).arg(text);
    output(&mut check).is_ok_and(|said| said.status.success() && said.stderr.is_empty())
}

/// Returns the shell that was asked for, else bash, else sh.
fn find_shell(asked: Option<&Path>) -> Result<PathBuf, Fault> {
    match asked {
        Some(shell) => find_program(shell).ok_or_else(|| {
            let why = match shell.metadata() {
                _ if !shell.as_os_str().as_encoded_bytes().contains(&b'/') => "command not found",
                Ok(file) if file.is_dir() => "is a directory",
                Ok(_) => "not executable",
                Err(_) => "no such file or directory",
            };
            Fault::usage(format!("cannot use shell '{}': {why}", shell.display()))
        }),
        None => {
            let found = find_program(Path::new("bash")).or_else(|| find_program(Path::new("sh")));
            Ok(found.unwrap_or_else(|| PathBuf::from("/bin/sh")))
        }
    }
}
