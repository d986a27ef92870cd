//! `weir sh` as the shell of a step, called as the runner of GitHub Actions calls it: the first word of `shell:` is
//! looked up, the rest are its arguments, and the script is a file of a name without an ending that nobody may
//! execute. Its standard error is read for commands as its standard output is.

use crate::common::WEIR;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

struct Job {
    place: tempfile::TempDir,
}

impl Job {
    fn new() -> Job {
        let place = tempfile::tempdir().expect("a directory");
        for directory in ["repo/ci", "_temp/_runner_file_commands"] {
            std::fs::create_dir_all(place.path().join(directory)).expect("made");
        }
        Job { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn summary(&self) -> PathBuf {
        self.path("_temp/_runner_file_commands/step_summary_1c6a")
    }

    /// Runs a step: `shell` is what stands behind the first word there.
    fn step(&self, program: &str, shell: &str, script: &str, env: &[(&str, &str)]) -> Output {
        let file = self.path("_temp/6f2b1c1e-6b7e-4bb8-9d5e-3d7f0c9a2f10");
        std::fs::write(&file, script).expect("written");
        let mut command = Command::new(program);
        command.args(shell.replace("{0}", file.to_str().expect("UTF-8")).split(' '));
        command.current_dir(self.path("repo")).stdin(Stdio::null()).env_remove("WEIR_SH");
        command.envs([("CI", "true"), ("GITHUB_ACTIONS", "true"), ("WEIR_MIN", "0")]);
        command.env("GITHUB_WORKSPACE", self.path("repo")).env("RUNNER_TEMP", self.path("_temp"));
        command.env("GITHUB_STEP_SUMMARY", self.summary()).env_remove("WEIR_REPORT");
        command.envs(env.iter().copied()).output().expect("it runs")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TO_SUMMARY: [(&str, &str); 1] = [("WEIR_REPORT", "$GITHUB_STEP_SUMMARY")];

#[test]
fn a_step_ends_and_prints_as_under_bash_and_has_a_line_of_the_log() {
    let job = Job::new();
    let script = "echo $- $0; false | true; echo on; false\necho off\n";
    for options in ["-e {0}", "--noprofile --norc -eo pipefail {0}", "{0}"] {
        let bash = job.step("bash", options, script, &[]);
        let weir = job.step(WEIR, &format!("sh {options}"), script, &TO_SUMMARY);
        assert_eq!(weir.status, bash.status, "{options}");
        assert_eq!(text(&weir.stdout), text(&bash.stdout), "{options}");
        let err = text(&weir.stderr);
        let notice = err.strip_prefix(&text(&bash.stderr)).expect("bash's messages come first");
        assert!(notice.starts_with("::notice title=weir%3A "), "{notice}");
        assert_eq!(notice.lines().count(), 1, "{notice}");
    }
    let summary = std::fs::read_to_string(job.summary()).expect("a summary");
    assert_eq!(summary.matches("### weir sh: ").count(), 3, "{summary}");
    // Elsewhere nothing reads such lines.
    let elsewhere = job.step(WEIR, "sh -e {0}", script, &[TO_SUMMARY[0], ("GITHUB_ACTIONS", "")]);
    assert_eq!(text(&elsewhere.stderr), "");
    let short = job.step(WEIR, "sh -e {0}", script, &[TO_SUMMARY[0], ("WEIR_MIN", "")]);
    assert_eq!(text(&short.stderr), "", "a brief step has no notice");
}

#[test]
fn what_failed_in_a_file_of_the_repository_is_named_with_its_line() {
    let job = Job::new();
    // It has to be seen before it ends.
    let build = "set -e\nsleep 0.3\nls --nosuch-option,100%: 2> /dev/null\necho off\n";
    std::fs::write(job.path("repo/ci/build.sh"), build).expect("written");
    let step = job.step(WEIR, "sh ci/build.sh", "", &TO_SUMMARY);
    assert_eq!(step.status.code(), Some(2));
    let err = text(&step.stderr);
    let Some(error) = err.lines().find(|line| line.starts_with("::error ")) else {
        let summary = std::fs::read_to_string(job.summary()).expect("a summary");
        assert!(summary.contains("which of its commands failed is not known"), "{err} {summary}");
        return eprintln!("SKIPPED: the kernel does not report how processes end");
    };
    let named = "::error file=ci/build.sh,line=3,title=weir%3A ";
    assert!(error.starts_with(named), "{error}");
    assert!(error.contains("::line 3 of build.sh: ls --nosuch-option,100%25: ended"), "{error}");
    // The file of the step is of no repository.
    let step = job.step(WEIR, "sh -e {0}", "sleep 0.3\nls --nosuch 2> /dev/null\n", &TO_SUMMARY);
    let err = text(&step.stderr);
    let error = err.lines().find(|line| line.starts_with("::error ")).expect("an error");
    assert!(error.starts_with("::error title=weir%3A ") && error.contains("line 2 of "), "{error}");
}
