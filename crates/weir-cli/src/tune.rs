//! `weir tune`: sets the defaults of weir's pipes, or the sizes of a pipe in use.

use crate::args::TuneOptions;
use crate::port::asked;
use crate::stat::must_exist;
use rustix::fd::AsFd;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use weir::tune::{Ask, Settings, ask, caches, host_path, path};
use weir_command::fault::{Fault, print_message};
use weir_command::output::Outlet;
use weir_command::units::capacity;
use weir_measure::machine::page_bytes;
use weir_policy::pipe::{MOST_BYTES, MOST_SHIFT};

const SCHEMA: &str = "weir.tune/1";
/// The schema for a pipe in use.
const PIPE_SCHEMA: &str = "weir.tune.pipe/1";

pub fn tune(options: &TuneOptions) -> Result<ExitCode, Fault> {
    if options.pipe.is_some() {
        return live(options);
    }
    if let Some(pid) = options.live.flatten() {
        must_exist(pid, "ask the pipes of")?;
    }
    let mut outlet = Outlet::open(&options.json)?;
    let read = || if options.host { Settings::read_from(&host_path()) } else { Settings::read() };
    let mut settings = if options.reset { Settings::default() } else { read()? };
    if let Some(size) = size(options) {
        settings.capacity_bytes = Some(size);
        // A segment that no longer fits follows from the size again.
        let whole = size.min(MOST_BYTES).next_power_of_two();
        let fit = whole >> MOST_SHIFT..=size;
        settings.segment_bytes = settings.segment_bytes.filter(|bytes| fit.contains(bytes));
    }
    let capacity = settings.usual_bytes();
    if options.segment.or(options.shift.map(u64::from)).is_some() {
        (settings.segment_bytes, settings.segment_shift) = (options.segment, options.shift);
    }
    settings.atomic_bytes =
        options.atomic.or(settings.atomic_bytes.filter(|bytes| *bytes <= capacity));
    let sizes = settings.sizes().map_err(asked)?;
    if size(options).is_some() {
        settings.capacity_bytes = Some(sizes.capacity_bytes);
    }
    let sizes_asked = size(options).is_some()
        || options.segment.or(options.atomic).or(options.shift.map(u64::from)).is_some();
    if options.reset || sizes_asked {
        match options.host {
            true => settings.write_to(&host_path())?,
            false => settings.write()?,
        }
    }
    show(&mut outlet, &settings, options.host)?;
    if let Some(pid) = options.live {
        print_message(&all_live(options, pid));
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the pipes in use that this user may change for these sizes: all of them, or those of which that
/// process holds an end. Returns a line that says how many were asked.
fn all_live(options: &TuneOptions, pid: Option<i32>) -> String {
    let mut pipes = weir::stat::pipes();
    pipes.retain(|pipe| pid.is_none_or(|pid| pipe.holders.iter().any(|(one, _)| *one == pid)));
    let changed = pipes.iter().filter(|pipe| ask_one(options, pipe).is_some()).count();
    format!(
        "{changed} of {} pipes in use were asked for them; their writers adopt them",
        pipes.len()
    )
}

/// Asks a pipe in use, with a segment relative to its own capacity. `None` if that cannot be done.
fn ask_one(options: &TuneOptions, pipe: &weir::stat::PipeStat) -> Option<()> {
    if pipe.writer.closed || pipe.reader.closed {
        return None;
    }
    let of_pipe = |&(pid, descriptor)| weir::stat::open(pid, descriptor, true).ok();
    let file = pipe.holders.iter().find_map(of_pipe)?;
    let capacity_bytes = size(options).filter(|_| pipe.kind != weir::stat::PipeKind::Records);
    let segment_bytes = segment(options, capacity_bytes.unwrap_or(pipe.capacity_bytes));
    let wanted = Ask { capacity_bytes, segment_bytes, atomic_bytes: options.atomic };
    ask(file.as_fd(), wanted).ok().map(drop)
}

fn size(options: &TuneOptions) -> Option<u64> {
    options.size.or(options.order.map(|order| page_bytes() << order))
}

fn segment(options: &TuneOptions, capacity: u64) -> Option<u64> {
    options.segment.or(options.shift.map(|shift| capacity.next_power_of_two() >> shift))
}

fn live(options: &TuneOptions) -> Result<ExitCode, Fault> {
    let mut outlet = Outlet::open(&options.json)?;
    let (pid, descriptor) = options.pipe.unwrap_or_default();
    let file = weir::stat::open(pid, descriptor, true).map_err(asked)?;
    let now = weir::stat::read(&file).map_err(|error| match error.kind() {
        weir::ErrorKind::Corrupt => {
            Fault::failed(format!("cannot set {pid}/{descriptor}: it is not a pipe of weir"))
        }
        _ => asked(error),
    })?;
    if now.writer.closed || now.reader.closed {
        return Err(Fault::failed(format!("cannot set {pid}/{descriptor}: it is closed")));
    }
    if now.kind == weir::stat::PipeKind::Records && size(options).is_some() {
        let why = "a record pipe keeps its size";
        return Err(Fault::failed(format!("cannot set the size of {pid}/{descriptor}: {why}")));
    }
    let capacity_bytes = size(options);
    let segment_bytes = segment(options, capacity_bytes.unwrap_or(now.capacity_bytes));
    let wanted = Ask { capacity_bytes, segment_bytes, atomic_bytes: options.atomic };
    let sizes = ask(file.as_fd(), wanted).map_err(asked)?;
    let body = || {
        json!({
            "pipe": {"pid": pid, "fd": descriptor},
            "asked": {
                "capacity_bytes": sizes.capacity_bytes,
                "segment_bytes": sizes.segment_bytes,
                "atomic_bytes": sizes.atomic_bytes,
            },
        })
    };
    outlet.write_report(PIPE_SCHEMA, body, String::new)?;
    if outlet.has_text() {
        print_message(&format!(
            "asked for {}, segments of {}, atomic bound {}; the writer adopts them",
            capacity(sizes.capacity_bytes),
            capacity(sizes.segment_bytes),
            capacity(sizes.atomic_bytes),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what pipes get by these settings, which are the host's or, over those, the user's.
fn show(outlet: &mut Outlet, settings: &Settings, of_host: bool) -> Result<(), Fault> {
    let host = Settings::read_from(&host_path())?;
    let both = settings.clone().or(&host);
    let sizes = both.sizes().map_err(asked)?;
    let has_segment = |of: &Settings| of.segment_bytes.is_some() || of.segment_shift.is_some();
    let from = |is_set: &dyn Fn(&Settings) -> bool, otherwise: &'static str| match () {
        () if is_set(settings) => "set",
        () if is_set(&host) => "host",
        () => otherwise,
    };
    let size_from = from(&|of| of.capacity_bytes.is_some(), "caches");
    let segment_from = from(&has_segment, "default");
    let atomic_from = from(&|of| of.atomic_bytes.is_some(), "default");
    let kept = if of_host { Some(host_path()) } else { path() };
    let kept = kept.map(|path| path.display().to_string());
    let body = || {
        json!({
            "capacity_bytes": sizes.capacity_bytes,
            "segment_bytes": sizes.segment_bytes,
            "atomic_bytes": sizes.atomic_bytes,
            "page_bytes": page_bytes(),
            "from": {"capacity": size_from, "segment": segment_from, "atomic": atomic_from},
            "file": kept,
        })
    };
    let (size, segment, atomic) = (sizes.capacity_bytes, sizes.segment_bytes, sizes.atomic_bytes);
    let order = (size / page_bytes()).ilog2();
    let shift = (size / segment).ilog2();
    let caches = caches();
    let why = match size_from {
        "caches" => format!(
            "from the caches ({} per CPU, {} shared)",
            capacity(caches.second_bytes),
            capacity(caches.third_bytes)
        ),
        "host" => format!("set in {}", host_path().display()),
        other => other.to_owned(),
    };
    let mut text = format!(
        "sizes of new pipes of weir\n  size     {:>8}  page << {order:<2}  {why}\n  \
         segment  {:>8}  size >> {shift:<2}  {segment_from}\n  \
         atomic   {:>8}              {atomic_from}\n",
        capacity(size),
        capacity(segment),
        capacity(atomic),
    );
    if let Some(kept) = kept.as_ref().filter(|kept| Path::new(kept).exists()) {
        text += &format!("saved in {kept}\n");
    }
    outlet.write_report(SCHEMA, body, || text).map(drop)
}
