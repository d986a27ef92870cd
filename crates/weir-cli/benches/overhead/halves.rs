//! Running the halves of a pair: bash and weir, under the same conditions.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// One way to run a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Bash,
    BashAgain,
    Weir,
    WeirSmallPipes,
    WeirProfile,
    Watched,
}

impl Half {
    pub const ALL: [Half; 6] = [
        Half::Bash,
        Half::BashAgain,
        Half::Weir,
        Half::WeirSmallPipes,
        Half::WeirProfile,
        Half::Watched,
    ];

    /// The name of the half in the table.
    pub fn name(self) -> &'static str {
        match self {
            Half::Bash => "bash",
            Half::BashAgain => "bash again",
            Half::Weir => "weir run",
            Half::WeirSmallPipes => "weir run --pipe-size 64K",
            Half::WeirProfile => "weir run --profile",
            Half::Watched => "bash, under weir watch",
        }
    }

    /// The half that it is compared with.
    pub fn base(self) -> Half {
        match self {
            Half::WeirProfile => Half::Weir,
            _ => Half::Bash,
        }
    }
}

/// What a pipeline printed.
#[derive(PartialEq, Eq)]
pub struct Printed {
    bytes: u64,
    /// The FNV-1a hash of the bytes.
    checksum: u64,
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes (checksum {:016x})", self.bytes, self.checksum)
    }
}

/// Runs halves.
pub struct Runner {
    directory: PathBuf,
    weir: PathBuf,
}

/// The most bytes of standard error that are shown.
const SAID_BYTES_MAX: usize = 2000;

impl Runner {
    /// Makes a runner with its data in `directory`.
    pub fn new(directory: &Path) -> Result<Runner, String> {
        let weir = std::env::var_os("WEIR_BENCH_BIN");
        let weir = PathBuf::from(weir.unwrap_or_else(|| env!("CARGO_BIN_EXE_weir").into()));
        // The halves run in another directory.
        let weir =
            weir.canonicalize().map_err(|error| format!("no {}: {error}", weir.display()))?;
        Ok(Runner { directory: directory.to_owned(), weir })
    }

    /// The directory that holds the data, and in which the pipelines run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the seconds from before the start to after the end. Standard output is /dev/null.
    pub fn time_s(&self, half: Half, text: &str) -> Result<f64, String> {
        let mut command = self.command(half, text)?;
        command.stdout(Stdio::null());
        let start = Instant::now();
        let mut child = start_of(&mut command)?;
        let watcher = (half == Half::Watched).then(|| self.watch(&child)).transpose()?;
        let status = child.wait().map_err(|error| error.to_string())?;
        let took_s = start.elapsed().as_secs_f64();
        self.must_succeed(status)?;
        if let Some(mut watcher) = watcher {
            let status = watcher.wait().map_err(|error| error.to_string())?;
            self.must_succeed(status)?;
        }
        Ok(took_s)
    }

    /// Watches a process to its end.
    fn watch(&self, child: &Child) -> Result<Child, String> {
        let mut command = Command::new(&self.weir);
        command.args(["watch", &child.id().to_string()]).stdout(Stdio::null());
        self.surround(&mut command)?;
        start_of(&mut command)
    }

    /// Returns what a half prints.
    pub fn print(&self, half: Half, text: &str) -> Result<Printed, String> {
        let mut command = self.command(half, text)?;
        command.stdout(Stdio::piped());
        let mut child = start_of(&mut command)?;
        let mut printed = Printed { bytes: 0, checksum: 0xcbf2_9ce4_8422_2325 };
        let mut output = child.stdout.take().expect("standard output is a pipe");
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = output.read(&mut buffer).map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            printed.bytes += count as u64;
            printed.checksum = buffer[..count].iter().fold(printed.checksum, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
            });
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        self.must_succeed(status)?;
        Ok(printed)
    }

    /// Returns weir's own peak memory in bytes and its CPU time in seconds, by its report of one
    /// more run; `None` if the report lacks them.
    pub fn weir_itself(&self, text: &str) -> Option<(u64, f64)> {
        const REPORT: &str = "weir.json";
        let mut weir = Command::new(&self.weir);
        weir.args(["run", "--quiet", "--json", REPORT, text]).stdout(Stdio::null());
        self.surround(&mut weir).ok()?;
        weir.status().ok().filter(ExitStatus::success)?;
        let report = std::fs::read(self.directory.join(REPORT)).ok()?;
        let report: serde_json::Value = serde_json::from_slice(&report).ok()?;
        let weir = &report["weir"];
        Some((weir["max_rss_bytes"].as_u64()?, weir["cpu_s"].as_f64()?))
    }

    /// Returns the first line that a program prints about its version.
    pub fn version(&self, half: Half) -> Option<String> {
        let program = if half == Half::Bash { Path::new("bash") } else { &self.weir };
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    }

    fn command(&self, half: Half, text: &str) -> Result<Command, String> {
        let (program, args): (&Path, &[&str]) = match half {
            Half::Bash | Half::BashAgain | Half::Watched => (Path::new("bash"), &["-c"]),
            Half::Weir => (&self.weir, &["run", "--quiet"]),
            Half::WeirSmallPipes => (&self.weir, &["run", "--quiet", "--pipe-size", "64K"]),
            Half::WeirProfile => (&self.weir, &["run", "--quiet", "--profile"]),
        };
        let mut command = Command::new(program);
        command.args(args).arg(text);
        self.surround(&mut command)?;
        Ok(command)
    }

    /// Sets up what all halves share. Standard error is a file, so that nobody has to read it
    /// meanwhile.
    fn surround(&self, command: &mut Command) -> Result<(), String> {
        let said = File::create(self.said()).map_err(|error| format!("no file: {error}"))?;
        command.current_dir(&self.directory).stdin(Stdio::null()).stderr(said);
        // Sort and match by bytes, whatever the host's language, and read no file at the start.
        command.env("LC_ALL", "C").env("TMPDIR", &self.directory).env_remove("BASH_ENV");
        Ok(())
    }

    fn said(&self) -> PathBuf {
        self.directory.join("stderr")
    }

    fn must_succeed(&self, status: ExitStatus) -> Result<(), String> {
        if status.success() {
            return Ok(());
        }
        let mut said = std::fs::read(self.said()).unwrap_or_default();
        said.truncate(SAID_BYTES_MAX);
        let said = String::from_utf8_lossy(&said);
        let said = if said.trim().is_empty() { "it said nothing" } else { said.trim() };
        Err(format!("ended with {status}: {said}"))
    }
}

fn start_of(command: &mut Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("cannot start: {error}"))
}
