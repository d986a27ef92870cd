//! `weir net log`: prints and follows the log of a switch, and chooses what is logged.

use super::switch::{device, those_up};
use super::{asked, cost};
use crate::args::NetLogOptions;
use crate::failed;
use serde_json::json;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_command::fault::{Fault, print_message};
use weir_command::json;
use weir_command::output::{Output, check_json_apart, print};
use weir_net::log::format::{self, SCHEMA, Zone, pcap, pcap_header, text};
use weir_net::log::{IDLE, Kinds, Log, LogCounts, LogEvent, LogReader};
use weir_net::{ErrorKind, names};

/// Bytes that are gathered before they are printed, while more events come.
const BLOCK_BYTES: usize = 64 << 10;
/// The default number of events with which `--follow` begins.
const LAST: usize = 10;
/// Time between two checks whether a gap in a log is filled or must be given up.
const LOOK: Duration = Duration::from_millis(5);

pub fn log(options: &NetLogOptions) -> Result<ExitCode, Fault> {
    let (set, sync) = (kinds(&options.set)?, kinds(&options.sync)?);
    if options.cost {
        path(options).map_or(Ok(()), |path| check_json_apart(&options.json, &path))?;
        return cost::cost(&directory(options)?, &options.json);
    }
    let path = path(options)?;
    if set.is_some() || sync.is_some() {
        return choose(&path, set, sync);
    }
    if options.pcap && std::io::stdout().is_terminal() {
        let how = "a capture file cannot go to a terminal; use: weir net log --pcap > FILE";
        return Err(Fault::usage(how));
    }
    check_json_apart(&options.json, &path)?;
    let wanted = kinds(&options.kinds)?.unwrap_or(Kinds::ALL);
    let mut printer = LogPrinter {
        options,
        wanted,
        zone: Zone::local(),
        reader: LogReader::open(&path).map_err(failed)?,
        output: Output::of_records(&options.json)?,
        text: String::new(),
        bytes: Vec::new(),
        reported: LogCounts::default(),
        printed: 0,
    };
    printer.report_end(&path)?;
    printer.print()?;
    Ok(ExitCode::SUCCESS)
}

/// The path of the log to use.
fn path(options: &NetLogOptions) -> Result<PathBuf, Fault> {
    match &options.file {
        Some(file) => Ok(file.clone()),
        None => {
            let tun = logged_device(options)?;
            names::find_log(&tun).map_err(|error| match error.kind() {
                ErrorKind::NoSwitch => Fault::failed(format!("{error}{}", those_up())),
                _ => asked(error),
            })
        }
    }
}

/// Chooses the device of the log: if none is named and no switch is up, the only one that has a log.
fn logged_device(options: &NetLogOptions) -> Result<String, Fault> {
    let tun = device(options.tun.as_deref())?;
    if options.tun.is_some() || names::is_up(&tun) {
        return Ok(tun);
    }
    let mut logged = names::logged().map_err(asked)?;
    Ok(if logged.len() == 1 { logged.remove(0) } else { tun })
}

/// The directory in which the log lies or would lie.
fn directory(options: &NetLogOptions) -> Result<PathBuf, Fault> {
    match &options.file {
        None => names::directory(&device(options.tun.as_deref())?).map_err(asked),
        Some(file) => {
            let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
            Ok(parent.unwrap_or(Path::new(".")).to_owned())
        }
    }
}

fn kinds(text: &Option<String>) -> Result<Option<Kinds>, Fault> {
    text.as_deref().map(str::parse).transpose().map_err(asked)
}

/// Sets which kinds are logged and which wait for the disk, and prints the previous settings.
fn choose(path: &Path, set: Option<Kinds>, sync: Option<Kinds>) -> Result<ExitCode, Fault> {
    let log = Log::open(path).map_err(failed)?;
    let mut lines = String::new();
    if let Some(kinds) = set {
        let before = log.set_mask(kinds);
        lines += &format!("logged: {kinds} (was {before})\n");
    }
    if let Some(kinds) = sync {
        let before = log.set_sync_mask(kinds);
        lines += &format!("waits for the disk: {kinds} (was {before})\n");
        if kinds != Kinds::NONE && cost::is_in_memory(path) {
            print_message("the log is in memory (tmpfs): a power failure loses it in any case");
        }
    }
    print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the events of a log.
struct LogPrinter<'a> {
    options: &'a NetLogOptions,
    wanted: Kinds,
    zone: Zone,
    reader: LogReader,
    output: Output,
    /// The gathered lines, or bytes of a capture file.
    text: String,
    bytes: Vec<u8>,
    /// The missing events that were reported.
    reported: LogCounts,
    printed: u64,
}

impl LogPrinter<'_> {
    /// Tells the user if the switch of this log has ended, and when: the log itself does not show
    /// it.
    fn report_end(&mut self, path: &Path) -> Result<(), Fault> {
        if self.options.file.is_some() {
            return Ok(());
        }
        let tun = logged_device(self.options)?;
        if names::is_up(&tun) {
            return Ok(());
        }
        let mut last_ns = self.reader.created_ns();
        self.each_present(|_, event| {
            last_ns = event.time_ns;
            Ok(())
        })?;
        self.reader = LogReader::open(path).map_err(failed)?;
        let (up, last) = (those_up(), self.zone.second(last_ns));
        print_message(&format!(
            "the switch on '{tun}' has ended{up}; this is its log, last written {last}"
        ));
        Ok(())
    }

    fn print(&mut self) -> Result<(), Fault> {
        if self.options.pcap {
            self.bytes.extend_from_slice(&pcap_header());
        }
        let last = match (self.options.last, self.options.follow, self.options.since_start) {
            (Some(last), ..) => Some(last),
            (None, true, false) => Some(LAST),
            _ => None,
        };
        match last {
            Some(last) => self.print_last(last)?,
            None => self.print_present()?,
        }
        if self.options.follow {
            return self.follow();
        }
        if self.options.pcap && self.printed == 0 {
            print_message("the log holds no packets; weir net log --set all logs them from now on");
        }
        Ok(())
    }

    /// Takes each event that the log holds now.
    fn each_present(
        &mut self,
        mut take: impl FnMut(&mut Self, LogEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let end = self.reader.head();
        while self.reader.position() < end {
            match self.reader.next().map_err(failed)? {
                Some(event) => take(self, event)?,
                None => self.pause(LOOK)?,
            }
        }
        Ok(())
    }

    /// Prints the events that the log holds now.
    fn print_present(&mut self) -> Result<(), Fault> {
        self.each_present(|printer, event| printer.put(&event))?;
        self.report_missing()?;
        self.flush()
    }

    /// Prints the last `most` events that the log holds now.
    fn print_last(&mut self, most: usize) -> Result<(), Fault> {
        let mut last: VecDeque<LogEvent> = VecDeque::new();
        self.each_present(|printer, event| {
            if printer.is_wanted(&event) {
                last.push_back(event);
                if last.len() > most {
                    last.pop_front();
                }
            }
            Ok(())
        })?;
        // The events before these are not missing, since they were not asked for.
        self.reported = self.reader.counts().map_err(failed)?;
        last.iter().try_for_each(|event| self.put(event))?;
        self.flush()
    }

    /// Prints new events without end, even if another log replaces this one.
    fn follow(&mut self) -> Result<(), Fault> {
        loop {
            while let Some(event) = self.reader.next().map_err(failed)? {
                self.put(&event)?;
            }
            self.report_missing()?;
            self.flush()?;
            if !(self.reader.is_at_end() && self.reader.reopen().map_err(failed)?) {
                self.pause(IDLE)?;
            }
        }
    }

    fn is_wanted(&self, event: &LogEvent) -> bool {
        self.wanted.has(event.kind())
    }

    /// Gathers an event, and prints what was gathered once it is a block.
    fn put(&mut self, event: &LogEvent) -> Result<(), Fault> {
        if !self.is_wanted(event) {
            return Ok(());
        }
        if self.options.pcap {
            self.printed += u64::from(pcap(&mut self.bytes, event));
        } else if self.options.json.file.is_some() {
            format::json(&mut self.text, event);
        } else {
            text(&mut self.text, event, &mut self.zone);
        }
        let is_much = self.text.len() + self.bytes.len() >= BLOCK_BYTES;
        if is_much { self.flush() } else { Ok(()) }
    }

    /// Prints what was gathered.
    fn flush(&mut self) -> Result<(), Fault> {
        let read = self.output.write(self.text.as_bytes())? && self.output.write(&self.bytes)?;
        self.text.clear();
        self.bytes.clear();
        if read { Ok(()) } else { Err(Fault::reader_gone()) }
    }

    fn pause(&self, time: Duration) -> Result<(), Fault> {
        if self.output.wait(time)? { Ok(()) } else { Err(Fault::reader_gone()) }
    }

    /// Reports which events are missing since the last report: among the lines of JSON, or else on
    /// standard error.
    fn report_missing(&mut self) -> Result<(), Fault> {
        let now = self.reader.counts().map_err(failed)?;
        let overwritten = now.overwritten_units - self.reported.overwritten_units;
        let unfinished = now.unfinished - self.reported.unfinished;
        let unsynced = now.unsynced.saturating_sub(self.reported.unsynced);
        self.reported = now;
        if overwritten + unfinished + unsynced == 0 {
            return Ok(());
        }
        if self.options.json.file.is_some() {
            let line = json!({
                "kind": "missing",
                "overwritten_units": overwritten,
                "unfinished": unfinished,
                "unsynced": unsynced,
            });
            self.text += &json::line(SCHEMA, line)?;
            return Ok(());
        }
        let mut parts = Vec::new();
        if overwritten > 0 {
            parts.push(format!(
                "{overwritten} units (32 bytes of events) were overwritten before they were read"
            ));
        }
        if unfinished > 0 {
            parts.push(format!(
                "{unfinished} records were begun, but not finished, by their writers"
            ));
        }
        if unsynced > 0 {
            parts.push(format!("{unsynced} events that should be on the disk are not"));
        }
        print_message(&parts.join("; "));
        Ok(())
    }
}
