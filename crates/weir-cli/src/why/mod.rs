//! `weir why`: says why a process does not continue.

pub mod words;

use crate::args::WhyOptions;
use crate::processes::{command_line, processes_called, processes_with, wrapped};
use crate::report;
use serde_json::{Value, json};
use std::process::ExitCode;
use weir_command::fault::{Fault, missing};
use weir_command::json;
use weir_command::output::Outlet;
use weir_command::units::parse::process_id;
use weir_command::widths::cut;
use weir_doctor::why::{Cause, HeldBack, Why, WhyLink};
use weir_policy::text::printable;
use weir_sys::proc::kernel_stack;

const SCHEMA: &str = "weir.why/1";
/// Most processes in a message, and the longest command line of one.
const MOST_NAMED: usize = 16;
const MOST_COLUMNS: usize = 80;

pub fn why(options: &WhyOptions) -> Result<ExitCode, Fault> {
    let mut outlet = Outlet::open(&options.json)?;
    let pid = target(options)?;
    let found = weir_measure::why::why(pid);
    let Some(found) = found else {
        return Err(Fault::failed(format!("cannot look at process {pid}: {}", missing(pid))));
    };
    let stack = |link: &WhyLink| kernel_stack(link.named.pid, link.named.pid);
    let stacks: Vec<_> = found.links.iter().map(|it| stack(it).filter(|_| options.stack)).collect();
    let text = || match options.stack {
        true => words::text(&found) + &words::stacks(&found, &stacks),
        false => words::text(&found),
    };
    outlet.write_report(SCHEMA, || document(&found, &stacks), text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the process that was asked for.
fn target(options: &WhyOptions) -> Result<i32, Fault> {
    let text = match (options.pid, &options.target) {
        (Some(pid), _) => return Ok(pid),
        (_, Some(text)) => text.as_str(),
        // clap asks for one of them.
        (None, None) => return Err(Fault::usage("a process is needed")),
    };
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return process_id(text).map_err(Fault::usage);
    }
    let named = processes_called(text);
    let (found, has) = match named.as_slice() {
        // Those that run a job have its words too.
        [] => {
            let all = processes_with(text);
            (wrapped(&all).map_or(all, |one| vec![one]), "have this in their command lines")
        }
        _ => (named, "have this name"),
    };
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Fault::failed(format!(
            "cannot look at '{text}': no process has this name, or this in its command line"
        ))),
        several => Err(Fault::failed(format!(
            "cannot look at '{text}': {} processes {has}; give the id of one:{}",
            several.len(),
            listed(several)
        ))),
    }
}

/// Returns processes a line each.
fn listed(pids: &[i32]) -> String {
    let line = |pid: &i32| {
        let command = match command_line(*pid) {
            // A zombie, or a thread of the kernel.
            none if none.is_empty() => format!("[{}]", json::command(*pid).unwrap_or_default()),
            command => command,
        };
        format!("\n{pid:>8}  {}", cut(&printable(&command), MOST_COLUMNS))
    };
    let mut lines: String = pids.iter().take(MOST_NAMED).map(line).collect();
    if pids.len() > MOST_NAMED {
        lines += &format!("\n     ...  {} more", pids.len() - MOST_NAMED);
    }
    lines
}

/// Says why a process does not continue, for another verb.
pub fn answer_for(pid: i32) -> String {
    match weir_measure::why::why(pid) {
        Some(found) => words::text(&found),
        None => format!("process {pid} has ended"),
    }
}

fn document(why: &Why, stacks: &[Option<Vec<String>>]) -> Value {
    let links = why.links.iter().zip(stacks);
    let links: Vec<Value> = links.map(|(found, stack)| link(found, stack.as_deref())).collect();
    json!({
        "pid": why.links.first().map(|link| link.named.pid),
        "answer": words::answer(why),
        "chain": links,
        "circle_from": why.circle.map(|at| at + 1),
        "is_cut": why.cut,
        "left_out_processes": why.left_out,
        "hints": words::hints(why),
    })
}

fn link(found: &WhyLink, stack: Option<&[String]>) -> Value {
    let held = match found.held_back {
        Some(HeldBack::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    json::process(
        found.named.pid,
        None,
        json!({
            "words": found.named.command,
            "parent_pid": found.parent.as_ref().map(|parent| parent.pid),
            "kind": kind(&found.wait),
            "text": words::alone(found),
            "share": found.share,
            "still_s": found.still_ns.map(json::seconds),
            "tracer_pid": found.tracer.as_ref().map(|tracer| tracer.pid),
            "waits_for_pids": found.others(),
            "held_back_bytes": held,
            "kernel_stack": stack,
            "hot": found.hot.as_ref().map(report::hot::stage_json),
        }),
    )
}

fn kind(wait: &Cause) -> &'static str {
    match wait {
        Cause::Computes { .. } => "computes",
        Cause::Cpu { .. } => "cpu",
        Cause::Quota { .. } => "quota",
        Cause::Frozen { .. } => "frozen",
        Cause::Ended { .. } => "ended",
        Cause::Stopped(_) => "stopped",
        Cause::Pipe(pipe) if pipe.writes => "pipe-out",
        Cause::Pipe(_) => "pipe-in",
        Cause::Open { .. } => "open",
        Cause::Lock { .. } | Cause::Polls { .. } | Cause::Semaphore => "lock",
        Cause::Threads { .. } => "threads",
        Cause::Child { .. } | Cause::Vfork { .. } | Cause::Ends { .. } => "child",
        Cause::Socket { .. } | Cause::Connect { .. } | Cause::Unanswered => "socket",
        Cause::File { .. } | Cause::Terminal { .. } => "file",
        Cause::Sleep { .. } => "sleep",
        Cause::Events { .. } | Cause::Signal { .. } | Cause::Queue { .. } => "events",
        Cause::Kernel => "kernel",
        Cause::Unknown { .. } => "unknown",
        Cause::Hidden { .. } => "hidden",
    }
}

#[cfg(test)]
mod tests;
