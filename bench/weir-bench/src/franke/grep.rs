//! `franke-grep`: cat of a cached file of 50 MB, piped into grep for a pattern that does not occur:
//! the real programs, with a pipe of a stated size between them.

use super::PIPE_BYTES;
use crate::engine::load::scratch_file;
use crate::tools::channel::set_pipe_bytes;
use crate::tools::prelude::*;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;
use weir_policy::random::Random;

const FILE_BYTES: usize = 50_000_000;
const ABSENT: &str = "a pattern that is not there";
/// The last line, which occurs once: a program that finds it has read the file to its end.
const LAST: &str = "this is the last line of all";

pub fn suite() -> Suite {
    let cases = PIPE_BYTES.map(|pipe| {
        let params = Params { pipe_bytes: Some(pipe), ..moving("kernel-pipe", "one-way") };
        let make = move |site: &Site| cat_grep(site, pipe);
        Case {
            standard: pipe == 64 << 10,
            normalise: Normalise::Never,
            size: BatchSize::Count(1),
            weight: 2.0,
            ..case(format!("cat | grep through {}", size(pipe)), params, Measure::THROUGHPUT, make)
        }
    });
    Suite {
        name: "franke-grep",
        about: "cat FILE | grep PATTERN as a whole, by the capacity of the pipe between them.",
        source: "H. Franke, October 2001, the Grep experiment",
        groups: vec![Group {
            baseline: Some(format!("cat | grep through {}", size(64 << 10))),
            standard: vec![Placement::Free],
            twin: false,
            processes: 10,
            ..group("pipeline", Sides::Two, cases.into())
        }],
    }
}

fn cat_grep(site: &Site, pipe: u64) -> MadeWork {
    static TEXT: OnceLock<File> = OnceLock::new();
    let mut file = file_for_all(&TEXT, || text_file(site))?;
    let site = site.clone();
    if !run(&site, &mut file, pipe, LAST)? {
        return Err(CaseError::failed("grep did not read the file to its end"));
    }
    work(move |count| {
        let begun = Instant::now();
        for _ in 0..count {
            if run(&site, &mut file, pipe, ABSENT)? {
                return Err(CaseError::failed("grep found a pattern that is not there"));
            }
        }
        Ok(Batch::throughput(elapsed_ns(begun), count * FILE_BYTES as u64))
    })
}

/// Writes lines of words, a megabyte of them again and again, to an unnamed file in the page cache.
fn text_file(site: &Site) -> Result<File, CaseError> {
    let mut random = Random::new(50);
    let mut lines = Vec::new();
    while lines.len() < 1 << 20 {
        let word = random.next_u64();
        let gap = if word.is_multiple_of(8) { b'\n' } else { b' ' };
        lines.extend_from_slice(format!("{:x}", word >> (word % 32)).as_bytes());
        lines.push(gap);
    }
    let mut text = lines.repeat(FILE_BYTES / lines.len() + 1);
    text.truncate(FILE_BYTES - 128);
    text.resize(FILE_BYTES - LAST.len() - 2, b'.');
    text.push(b'\n');
    text.extend_from_slice(LAST.as_bytes());
    text.push(b'\n');
    let mut file = scratch_file(site)?;
    file.write_all(&text).map_err(|error| {
        CaseError::left_out(format!(
            "not enough space for 50 MB in {}: {error}",
            site.directory.display()
        ))
    })?;
    Ok(file)
}

/// Runs the pipeline to its end. Returns whether grep found the pattern.
fn run(site: &Site, file: &mut File, pipe: u64, pattern: &str) -> Result<bool, CaseError> {
    file.seek(SeekFrom::Start(0))?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    set_pipe_bytes(&write, pipe)?;
    // Programs start on the CPU of this process.
    site.go_there()?;
    let mut grep = start("grep", &["-F", "-e", pattern], read.into(), Stdio::null())?;
    site.go_here()?;
    let mut cat = start("cat", &[], file.try_clone()?.into(), write.into())?;
    if !cat.wait()?.success() {
        return Err(CaseError::failed("cat failed"));
    }
    match grep.wait()?.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(CaseError::failed("grep failed")),
    }
}

/// The command is dropped on return, and with it our ends of the pipe. Otherwise grep would wait
/// for what this process might still write.
fn start(name: &str, words: &[&str], input: Stdio, output: Stdio) -> Result<Child, CaseError> {
    let mut command = Command::new(name);
    command.args(words).env("LC_ALL", "C").stdin(input).stdout(output);
    command.spawn().map_err(|error| CaseError::left_out(format!("cannot run {name}: {error}")))
}
