//! Where the report goes.

use crate::args::RunOptions;
use crate::fault::tell;
use crate::output::print_json;
use crate::report::{Detail, Look};
use signal_hook::consts::SIGXFSZ;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use weir_cli_sys::closed_standard_descriptors;

/// Where the report goes; opened before the run, so that a bad name is told at once and still
/// costs nobody the pipeline's work.
pub struct Outputs {
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
    pub fn open(options: &RunOptions) -> Outputs {
        let text = match &options.output {
            _ if options.quiet => None,
            Some(path) => open(path, "report"),
            None if closed_standard_descriptors()[2] => None,
            None => Some(Target::Stderr),
        };
        let json = options.json.as_ref().and_then(|path| match path.as_os_str() == "-" {
            true => Some(Target::Stdout),
            false => open(path, "JSON report"),
        });
        Outputs { text, json, detail: options.detail() }
    }

    /// Writes what was found: a report, or a comparison of several pipelines.
    pub fn write<T>(&self, found: &T, text: fn(&T, &Look) -> String, json: fn(&T) -> String) {
        if let Some(target) = &self.text {
            target.write(&text(found, &target.look(self.detail)));
        }
        if let Some(target) = &self.json {
            target.write(&json(found));
        }
    }
}

fn open(path: &Path, what: &str) -> Option<Target> {
    match File::create(path) {
        Ok(file) => Some(Target::File(file, path.display().to_string())),
        Err(error) => {
            let path = path.display();
            tell(&format!(
                "cannot write the {what} to '{path}': {error}; the pipeline runs anyway"
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
