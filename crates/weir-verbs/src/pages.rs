//! `weir completions` and `weir man`, generated from the definition of the command line.

use crate::args::{CompletionsOptions, ManOptions, command};
use crate::fault::Fault;
use crate::output::Output;
use std::process::ExitCode;

/// Prints a completion script.
pub fn completions(options: &CompletionsOptions) -> Result<ExitCode, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command(), "weir", &mut script);
    print(&script)
}

/// Writes the manual pages into a directory, or the first of them to standard output.
pub fn man(options: &ManOptions) -> Result<ExitCode, Fault> {
    match &options.out {
        Some(directory) => {
            let what = format!("write manual pages to '{}'", directory.display());
            let cannot = Fault::cannot(&what);
            std::fs::create_dir_all(directory).map_err(&cannot)?;
            clap_mangen::generate_to(command(), directory).map_err(cannot)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command()).render(&mut page);
            rendered.map_err(Fault::cannot("make the page"))?;
            print(&page)
        }
    }
}

fn print(bytes: &[u8]) -> Result<ExitCode, Fault> {
    Output::stdout()?.write(bytes).map(|_| ExitCode::SUCCESS)
}
