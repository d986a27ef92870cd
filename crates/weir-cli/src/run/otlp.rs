//! Spans of a run: the trace that its caller began and its stages go on with, and where the spans go.

use super::pages::place_of;
use crate::files::{cannot_write, writable, write};
use crate::report::{Report, Trace, otlp};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_command::fault::{Fault, print_message};
use weir_measure::runner::Job;
use weir_sys::places::variable;

/// The value of `--otlp` that is no file.
pub const SEND: &str = "send";
/// How long it may take to send the spans.
const LIMIT: Duration = Duration::from_secs(5);
/// Where a collector of this host listens.
const COLLECTOR: &str = "http://localhost:4318";
/// What the file holds, in messages.
const SPANS: &str = "spans";

/// The spans of a run that was not over yet.
#[derive(Debug)]
pub struct Spans {
    trace: Trace,
    /// `None`: they are sent.
    file: Option<PathBuf>,
}

impl Spans {
    /// Prepares a job for `--otlp`: its stages get a `TRACEPARENT` that names their spans.
    pub fn prepare(wanted: Option<&Path>, job: &mut Job) -> Result<Option<Spans>, Fault> {
        let Some(wanted) = wanted else { return Ok(None) };
        let file = Some(wanted.to_owned()).filter(|file| file.as_os_str() != SEND);
        if let Some(file) = &file {
            writable(file).map_err(|error| cannot_write(SPANS, Some(file), &error))?;
        }
        let above = variable("TRACEPARENT").and_then(|text| Above::read(text.to_str()?));
        let state = || {
            let state = variable("TRACESTATE").and_then(|state| state.into_string().ok());
            state.filter(|state| state.is_ascii()).unwrap_or_default()
        };
        let flags = above.as_ref().map_or("01", |above| &above.flags).to_owned();
        let service = variable("OTEL_SERVICE_NAME").and_then(|name| name.into_string().ok());
        let service = service.filter(|name| !name.is_empty());
        let unnamed = Fault::cannot("read '/dev/urandom'");
        let (run, own) = (random::<8>(), random::<16>());
        let mut trace = Trace {
            id: above.as_ref().map_or(own, |above| Ok(above.trace.clone())).map_err(&unnamed)?,
            above: above.map(|above| (above.span, state())),
            run: run.map_err(&unnamed)?,
            stages: Vec::new(),
            begun_unix_ns: 0,
            service: service.unwrap_or_else(|| String::from("weir")),
        };
        for _ in &job.stages {
            // What a script starts stands below the run, as the script itself does.
            let id = if job.script { trace.run.clone() } else { new_id() };
            let parent = format!("00-{}-{id}-{flags}", trace.id);
            job.variables.push((OsString::from("TRACEPARENT"), parent.into()));
            trace.stages.push(id);
        }
        job.history |= job.script;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        trace.begun_unix_ns = now.as_nanos() as u64;
        Ok(Some(Spans { trace, file }))
    }

    /// Writes or sends the spans. What fails is said, and changes nothing else.
    pub fn finish(&self, report: &Report) {
        let text = otlp(report, &self.trace, &place_of(&report.run), &mut new_id);
        match &self.file {
            Some(file) => {
                if let Err(error) = write(file, text.as_bytes()) {
                    cannot_write(SPANS, Some(file), &error).print_message();
                }
            }
            None => {
                let url = endpoint();
                if let Err(why) = send(&url, &text) {
                    print_message(&format!("cannot send the spans to '{url}': {why}"));
                }
            }
        }
    }
}

/// What a `TRACEPARENT` says.
#[derive(Debug, PartialEq, Eq)]
struct Above {
    trace: String,
    span: String,
    flags: String,
}

impl Above {
    /// Reads the variable, which has the form of the header `traceparent` of W3C's Trace Context.
    fn read(text: &str) -> Option<Above> {
        let mut parts = text.trim().split('-');
        let mut part = |length: usize| {
            let part = parts.next()?;
            let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
            (part.len() == length && part.chars().all(is_hex)).then(|| part.to_owned())
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let is_some = |id: &str| id.contains(|c| c != '0');
        // A later version may have more parts; this one has none.
        let is_whole = version != "ff" && (version != "00" || parts.next().is_none());
        (is_whole && is_some(&trace) && is_some(&span)).then_some(Above { trace, span, flags })
    }
}

/// Where the spans are sent, by the variables that all exporters of OpenTelemetry read.
fn endpoint() -> String {
    let set = |name: &str| {
        let text = variable(name).and_then(|text| text.into_string().ok());
        text.filter(|text| !text.is_empty())
    };
    set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").unwrap_or_else(|| {
        let base = set("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| COLLECTOR.to_owned());
        format!("{}/v1/traces", base.trim_end_matches('/'))
    })
}

fn send(url: &str, text: &str) -> Result<(), String> {
    if url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        return Err(format!(
            "weir speaks HTTP without TLS; name a collector of this host, such as {COLLECTOR}, which sends them on"
        ));
    }
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(LIMIT))
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")));
    let agent = ureq::Agent::new_with_config(config.build());
    let sent = agent.post(url).header("content-type", "application/json").send(text);
    sent.map(drop).map_err(|error| error.to_string())
}

fn new_id() -> String {
    // What the kernel gave once, it gives again.
    random::<8>().unwrap_or_default()
}

/// Random bytes of the kernel, in hexadecimal.
fn random<const N: usize>() -> io::Result<String> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_trace_parent_is_taken() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let above = Above { trace: trace.into(), span: span.into(), flags: "01".into() };
        assert_eq!(Above::read(&format!("00-{trace}-{span}-01")), Some(above));
        assert!(Above::read(&format!("cc-{trace}-{span}-01-what")).is_some(), "a later version");
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-what"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{zeros}-{span}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            format!("00-{trace}-\u{e9}{}-01", &span[2..]),
        ] {
            assert_eq!(Above::read(&wrong), None, "{wrong}");
        }
        assert!(random::<16>().is_ok_and(|id| id.len() == 32 && id != zeros));
    }
}
