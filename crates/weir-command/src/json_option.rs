//! The option `--json FILE`, the same in every verb.

use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

/// The option `--json FILE`.
#[derive(Clone, Debug, Default, Args)]
pub struct JsonOption {
    /// Write JSON to FILE; - is standard output, which then gets nothing else
    #[arg(long = "json", id = "json", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

impl JsonOption {
    /// Whether standard output is for the JSON alone.
    pub fn is_stdout(&self) -> bool {
        self.file.as_deref() == Some(Path::new("-"))
    }

    /// The file, unless it is standard output.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|_| !self.is_stdout())
    }
}
