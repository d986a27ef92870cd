//! The list of pipelines, and the inputs they need.

use crate::make;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_measure::programs::find_program;

/// The corpus as `pipelines.toml` lists it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    #[serde(rename = "input")]
    pub inputs: Vec<Input>,
    #[serde(rename = "pipeline")]
    pub pipelines: Vec<Pipeline>,
}

/// A file or directory that pipelines read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: String,
    /// What the program itself generates: "KIND COUNT".
    generate: Option<String>,
    /// Or the command that makes it.
    make: Option<String>,
    #[serde(default)]
    needs: Vec<String>,
}

/// One pipeline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    pub name: String,
    pub field: String,
    pub stages: Vec<String>,
    pub inputs: Vec<String>,
    pub tools: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub service: Option<String>,
    /// A command through which outputs pass before they are compared.
    pub check: Option<String>,
    /// Advice followed by hand, where weir gives no text for it.
    #[serde(default)]
    pub follow: Vec<Follow>,
}

/// A piece of advice as a colleague would follow it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    pub kind: String,
    /// The stages as they are then.
    pub stages: Vec<String>,
}

/// The text of a pipeline of these stages.
pub fn text(stages: &[String]) -> String {
    stages.join(" | ")
}

impl Corpus {
    /// Reads the list that was built in.
    pub fn load() -> Result<Corpus, String> {
        toml::from_str(include_str!("../pipelines.toml")).map_err(|error| error.to_string())
    }

    /// Makes what `pipeline` reads, if it is not there yet.
    pub fn make_inputs(&self, pipeline: &Pipeline, data: &Path) -> Result<(), String> {
        pipeline.inputs.iter().try_for_each(|name| self.make_input(name, data))
    }

    fn make_input(&self, name: &str, data: &Path) -> Result<(), String> {
        let input = self.inputs.iter().find(|input| input.name == name);
        let input = input.ok_or_else(|| format!("no input is named '{name}'"))?;
        input.needs.iter().try_for_each(|name| self.make_input(name, data))?;
        // An input that was not finished has no mark.
        let (path, mark) = (data.join(name), data.join(format!(".made-{name}")));
        if mark.exists() {
            return Ok(());
        }
        eprintln!("making {name}");
        let _ = std::fs::remove_dir_all(&path);
        match (&input.generate, &input.make) {
            (Some(recipe), None) => make::make(recipe, &path)?,
            (None, Some(command)) => by_command(command, name, data)?,
            _ => return Err(format!("input '{name}' needs either 'generate' or 'make'")),
        }
        std::fs::write(&mark, "").map_err(|error| format!("cannot write a mark: {error}"))
    }
}

fn by_command(command: &str, name: &str, data: &Path) -> Result<(), String> {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", command]).current_dir(data).env("LC_ALL", "C");
    let status = bash.stdin(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot start bash: {error}"))?;
    status.success().then_some(()).ok_or_else(|| format!("cannot make input '{name}': {status}"))
}

impl Pipeline {
    /// Returns a tool that is not installed.
    pub fn missing(&self) -> Option<&str> {
        self.tools.iter().map(String::as_str).find(|tool| find(tool).is_none())
    }
}

/// Finds a program in PATH, or where Debian puts those of administrators.
pub fn find(program: &str) -> Option<PathBuf> {
    let names = ["", "/usr/sbin", "/sbin"].map(|directory| Path::new(directory).join(program));
    names.iter().find_map(|name| find_program(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        let corpus = Corpus::load().expect("a list");
        assert!(corpus.pipelines.len() >= 30);
        let mut names: Vec<&str> = corpus.pipelines.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "a name twice");
        for pipeline in &corpus.pipelines {
            assert!(pipeline.stages.len() >= 2, "{}", pipeline.name);
            for name in &pipeline.inputs {
                assert!(corpus.inputs.iter().any(|input| input.name == *name), "{name}");
            }
        }
    }
}
