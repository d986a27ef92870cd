//! Verbs that have binaries of their own, which `weir` finds beside itself or in PATH.

use clap::Command;
use clap_complete::Shell;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_command::fault::Fault;
use weir_command::output::Output;
use weir_command::pages::{self, CommandTree};
use weir_command::product::{MAN, TREE};
use weir_command::sys;
use weir_measure::programs::find_program;
use weir_measure::sys::spawn::output;

/// A verb, the binary that has it, and what it does.
struct Product {
    verb: &'static str,
    binary: &'static str,
    /// Whether the verb is the first word of the binary's arguments.
    is_word: bool,
    about: &'static str,
}

const PRODUCTS: [Product; 5] = [
    Product {
        verb: "bench",
        binary: "weir-bench",
        is_word: false,
        about: "Measure how fast bytes and messages pass between processes on this host, repeatably",
    },
    Product {
        verb: "compare",
        binary: "weir-bench",
        is_word: true,
        about: "Compare two saved runs of weir bench, or one with a new run",
    },
    Product {
        verb: "history",
        binary: "weir-bench",
        is_word: true,
        about: "List, show, export or remove saved runs of weir bench",
    },
    Product {
        verb: "net",
        binary: "weir-net",
        is_word: false,
        about: "Run a network host in user space: a packet switch on a TUN device, a log, profiles",
    },
    Product {
        verb: "model",
        binary: "weir-model",
        is_word: false,
        about: "Repeat published experiments in virtual time, and say what other pipes or CPUs would do to \
                a run",
    },
];

impl Product {
    fn path(&self) -> Option<PathBuf> {
        let beside = std::env::current_exe().ok().map(|weir| weir.with_file_name(self.binary));
        beside.filter(|path| path.is_file()).or_else(|| find_program(Path::new(self.binary)))
    }

    /// What installs it: a release has all binaries.
    fn installs() -> &'static str {
        concat!(
            "curl -fsSL ",
            env!("CARGO_PKG_REPOSITORY"),
            "/releases/latest/download/install.sh | sh"
        )
    }

    fn exec(&self, words: &[OsString]) -> Fault {
        let Some(path) = self.path() else {
            return Fault::failed(format!(
                "'weir {}' is not installed; to install it: {}",
                self.verb,
                Product::installs()
            ));
        };
        let word = self.is_word.then(|| self.verb.into());
        let args = std::iter::once(path.clone().into_os_string()).chain(word);
        let args = args.chain(words.iter().cloned());
        let terminated = |word: OsString| CString::new(word.into_vec()).unwrap_or_default();
        let args: Vec<CString> = args.map(terminated).collect();
        let error = sys::exec(&args[0], &args);
        Fault::cannot(&format!("start '{}'", path.display()))(error)
    }
}

/// Runs the binary that has the verb of these arguments in place of this process. Returns only if
/// none has it, or if it cannot be run.
pub fn run(args: &[OsString]) -> Option<Fault> {
    let is_help = args.get(1).is_some_and(|word| word == "help");
    let verb = args.get(if is_help { 2 } else { 1 })?;
    let product = PRODUCTS.iter().find(|product| verb == product.verb)?;
    let mut words = args[if is_help { 3 } else { 2 }..].to_vec();
    words.extend(is_help.then(|| "--help".into()));
    Some(product.exec(&words))
}

/// Adds the verbs to the command, for its help.
pub fn listed(command: Command) -> Command {
    PRODUCTS.iter().fold(command, |command, product| {
        let mut about = product.about.to_owned();
        if product.path().is_none() {
            about += &format!(" (not installed: {})", Product::installs());
        }
        command.subcommand(Command::new(product.verb).about(about))
    })
}

/// Prints a completion script of `weir` and all that is installed.
pub fn completions(weir: Command, shell: Shell) -> Result<ExitCode, Fault> {
    let completed = PRODUCTS.iter().fold(weir, |command, product| match described(product) {
        Some(described) => command.mut_subcommand(product.verb, |_| described),
        None => command,
    });
    print(pages::script(completed, shell).as_bytes())
}

/// Asks the binary of a verb what completes it.
fn described(product: &Product) -> Option<Command> {
    let output = output(std::process::Command::new(product.path()?).arg(TREE)).ok()?;
    let trees: Vec<CommandTree> = serde_json::from_slice(&output.stdout).ok()?;
    let position = PRODUCTS.iter().filter(|other| other.binary == product.binary);
    let position = position.take_while(|other| other.verb != product.verb).count();
    Some(trees.get(position)?.command(product.verb))
}

/// Writes the manual pages into a directory, or the first of them to standard output.
pub fn man(weir: Command, out: Option<&Path>) -> Result<ExitCode, Fault> {
    let Some(directory) = out else { return print(&pages::man(weir)?) };
    pages::write_man(weir, directory)?;
    let mut binaries: Vec<PathBuf> = PRODUCTS.iter().filter_map(Product::path).collect();
    binaries.dedup();
    for binary in binaries {
        let output = output(std::process::Command::new(&binary).args(MAN).arg(directory));
        let output = output.map_err(Fault::cannot(&format!("start '{}'", binary.display())))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim_start_matches("weir: ").trim_end();
            return Err(Fault::failed(why));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(bytes: &[u8]) -> Result<ExitCode, Fault> {
    Output::stdout()?.write(bytes).map(|_| ExitCode::SUCCESS)
}
