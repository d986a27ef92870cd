//! The line at which a bash is, and the function, read from its memory.
//!
//! bash exports its variables to builtins that are loaded while it runs, so their addresses are in its file:
//! `line_number`, `variable_context` (how deep in functions it is), `sourcelevel` (in files that it reads),
//! `this_shell_function`, and `shell_function_defs`, which tells the file of each function (bash:
//! `execute_cmd.c`, `variables.h`, `hashlib.h`, `command.h`). The script notices nothing.

use crate::bytes::{long, word};
use crate::program::elf::{self, Elf};
use crate::program::is_served;
use crate::sys::memory::read_remote;
use object::elf::SHT_DYNSYM;
use object::read::elf::{ProgramHeader, Sym};
use object::{NativeEndian as Native, ReadCache};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use weir_doctor::facts::{Line, LineTime};
use weir_sys::Pid;
use weir_sys::proc::{Mappings, program_file, program_path};

/// The variables, in the order of [`Addresses`].
const NAMES: [&[u8]; 5] = [
    b"line_number",
    b"variable_context",
    b"sourcelevel",
    b"this_shell_function",
    b"shell_function_defs",
];
/// The longest name of a function or a file that is read.
const NAME_BYTES: usize = 256;
/// Most chains of functions that are followed, and most functions in one.
const MOST_CHAINS: u64 = 4096;
const MOST_IN_CHAIN: usize = 256;
/// Most lines that are told apart.
const MOST_PLACES: usize = 4096;

/// Where the variables of a bash are, from where its file begins in memory.
type Addresses = [u64; NAMES.len()];

/// What is known of the files of programs: whose variables are where; `None` for what is no bash.
static KNOWN: Mutex<BTreeMap<(u64, u64, i64), Option<Addresses>>> = Mutex::new(BTreeMap::new());

/// The time that a bash spent at each of its lines.
#[derive(Debug, Default)]
pub struct Places {
    /// Where its variables are; `None` before the first look.
    variables: Option<Option<Addresses>>,
    times: BTreeMap<(Line, Option<String>), u64>,
    /// Where each function begins.
    functions: BTreeMap<String, Option<Line>>,
}

impl Places {
    /// Notes where process `pid` is, which represents `weight_ns`. `script`: the file that it reads, if it
    /// was given one.
    pub fn note(&mut self, pid: Pid, script: Option<&Path>, weight_ns: u64) {
        let variables = *self.variables.get_or_insert_with(|| variables(pid));
        let Some(place) = variables.and_then(|at| self.place(pid, &at, script)) else { return };
        if self.times.len() < MOST_PLACES || self.times.contains_key(&place) {
            *self.times.entry(place).or_default() += weight_ns;
        }
    }

    fn place(
        &mut self,
        pid: Pid,
        [line, context, sourcing, function, functions]: &Addresses,
        script: Option<&Path>,
    ) -> Option<(Line, Option<String>)> {
        let number = |at: u64| Some(i64::from(word(&read::<4>(pid, at)?, 0)? as i32));
        let line = usize::try_from(number(*line)?).ok()?;
        if number(*context)? > 0 {
            let name =
                pointed(pid, *function).and_then(|shell_variable| name_at(pid, shell_variable))?;
            let of = |name: &String| definition_of(pid, *functions, name);
            let begins = self.functions.entry(name.clone()).or_insert_with_key(of).clone();
            // Without its file the number would be that of a line in another one.
            let known = |begins: Line| Line { line, ..begins };
            return Some((begins.map_or_else(Line::default, known), Some(name)));
        }
        if number(*sourcing)? > 0 {
            return None;
        }
        Some((
            script.map_or_else(|| Line { line, ..Line::default() }, |path| line_of(path, line)),
            None,
        ))
    }

    /// Returns the times at the lines of several, that with the longest first.
    pub fn of<'a>(all: impl Iterator<Item = &'a Places> + Clone) -> Vec<LineTime> {
        let mut sums: BTreeMap<(Line, Option<String>), u64> = BTreeMap::new();
        for (place, ns) in all.clone().flat_map(|places| &places.times) {
            *sums.entry(place.clone()).or_default() += ns;
        }
        // Between two expressions of a loop bash has the line at which the function begins.
        let between = |(line, function): &(Line, Option<String>)| {
            let name = function.as_ref();
            let begins = |places: &Places| {
                name.is_some_and(|name| places.functions.get(name) == Some(&Some(line.clone())))
            };
            let goes_on = |of: &(Line, Option<String>)| of.1 == *function && of.0.line > line.line;
            all.clone().any(begins) && sums.keys().any(goes_on)
        };
        let time = |((line, function), own_ns): (&(Line, Option<String>), &u64)| LineTime {
            line: line.clone(),
            function: function.clone(),
            own_ns: *own_ns,
        };
        let mut times: Vec<LineTime> =
            sums.iter().filter(|(place, _)| !between(place)).map(time).collect();
        times.sort_by_key(|time| std::cmp::Reverse(time.own_ns));
        times
    }
}

/// Returns where the variables of a process are, if it is a bash.
fn variables(pid: Pid) -> Option<Addresses> {
    let file = program_file(pid)?;
    let maps = Mappings::of(pid);
    let first = maps.iter().find(|part| part.inode == file.1 && part.offset == 0)?;
    let known = KNOWN.lock().ok()?.get(&file).copied();
    let offsets = known.unwrap_or_else(|| {
        let found = if is_served(pid, first.device) { None } else { offsets(pid) };
        if let Ok(mut all) = KNOWN.lock() {
            all.insert(file, found);
        }
        found
    })?;
    Some(offsets.map(|offset| first.start.wrapping_add(offset)))
}

/// Reads from the file of a process's program where its variables are; `None` if it has not all of them.
fn offsets(pid: Pid) -> Option<Addresses> {
    let (file, _) = elf::open(Path::new(&program_path(pid)?))?;
    let text = ReadCache::new(&file);
    let elf = Elf::read(&text)?;
    let base = elf.loaded().next()?.p_vaddr(Native);
    let (symbols, names) = elf.symbols(SHT_DYNSYM)?;
    let mut found = [None; NAMES.len()];
    for symbol in symbols {
        let name = elf::name_of(symbol, names);
        if let Some(at) = NAMES.iter().position(|wanted| name == Some(wanted)) {
            found[at] = Some(symbol.st_value(Native).wrapping_sub(base));
        }
    }
    let all: Option<Vec<u64>> = found.into_iter().collect();
    all?.try_into().ok()
}

/// Returns where a function begins, from the table of all functions.
fn definition_of(pid: Pid, functions: u64, wanted: &str) -> Option<Line> {
    let table = read::<12>(pid, pointed(pid, functions)?)?;
    let (chains, count) = (long(&table, 0)?, u64::from(word(&table, 8)?));
    for chain in 0..count.min(MOST_CHAINS) {
        let mut next = pointed(pid, chains.checked_add(chain * 8)?)?;
        for _ in 0..MOST_IN_CHAIN {
            if next == 0 {
                break;
            }
            let entry = read::<24>(pid, next)?;
            if name(pid, long(&entry, 8)?).as_deref() == Some(wanted) {
                // Its flags and its line, its name, its command, and its file.
                let definition = read::<32>(pid, long(&entry, 16)?)?;
                let line = usize::try_from(word(&definition, 4)?).ok()?;
                let file = name(pid, long(&definition, 24)?)?;
                return Some(line_of(Path::new(&file), line));
            }
            next = long(&entry, 0)?;
        }
    }
    None
}

/// Returns a line of a file, which is named as in the other lines of a report.
fn line_of(file: &Path, line: usize) -> Line {
    let script = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = file.is_absolute().then(|| file.to_string_lossy().into_owned());
    Line { script, path, line }
}

/// Reads bytes of its memory.
fn read<const N: usize>(pid: Pid, address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (read_remote(pid, address, &mut bytes).ok()? == N).then_some(bytes)
}

/// Reads the pointer at an address.
fn pointed(pid: Pid, address: u64) -> Option<u64> {
    long(&read::<8>(pid, address)?, 0)
}

/// Reads the name to which the pointer at an address points.
fn name_at(pid: Pid, address: u64) -> Option<String> {
    name(pid, pointed(pid, address)?)
}

/// Reads a name that ends with a zero.
fn name(pid: Pid, address: u64) -> Option<String> {
    let mut bytes = [0; NAME_BYTES];
    let got = read_remote(pid, address, &mut bytes).ok()?;
    let end = bytes[..got].iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// Where a time went inside of bash took a trace, which makes a script several times as slow.
    #[test]
    fn a_bash_is_met_at_its_line_and_in_its_function() {
        let directory = tempfile::tempdir().expect("a directory");
        let [main, library] = ["main.sh", "library.sh"].map(|name| directory.path().join(name));
        std::fs::write(&library, "\n\n\nwork() {\n  echo there\n  while :; do :; done\n}\n")
            .expect("written");
        std::fs::write(&main, format!(". {}\n\nwork\n", library.display())).expect("written");
        let mut bash = Command::new("bash");
        let Ok(mut child) = bash.arg(&main).stdout(Stdio::piped()).spawn() else {
            eprintln!("SKIPPED: bash is not installed");
            return;
        };
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("it is there");
        let (mut places, pid) = (Places::default(), child.id() as Pid);
        let all_ns = |found: &[LineTime]| found.iter().map(|time| time.own_ns).sum::<u64>();
        // One that waits for a CPU in the middle of a change is met there each time.
        let begun = std::time::Instant::now();
        let few = |places: &Places| all_ns(&Places::of([places].into_iter())) < 50;
        while few(&places) && places.variables != Some(None) && begun.elapsed().as_secs() < 20 {
            (0..100).for_each(|_| places.note(pid, Some(&main), 1));
            std::thread::yield_now();
        }
        child.kill().and_then(|()| child.wait()).expect("ended");
        if places.variables == Some(None) {
            eprintln!("SKIPPED: this bash does not export its variables");
            return;
        }
        let found = Places::of([&places].into_iter());
        let in_function = |time: &LineTime| {
            let is_here = time.line.script == "library.sh" && time.line.line <= 6;
            is_here && time.function.as_deref() == Some("work")
        };
        let all = all_ns(&found);
        let there: u64 =
            found.iter().filter(|time| in_function(time)).map(|time| time.own_ns).sum();
        // A variable may be in the middle of a change.
        assert!(all >= 50 && there * 10 >= all * 9, "{found:?}");
    }

    #[test]
    fn another_program_is_no_bash() {
        let mut sleep = Command::new("sleep").arg("100").spawn().expect("sleep");
        let mut places = Places::default();
        places.note(sleep.id() as Pid, None, 1);
        sleep.kill().and_then(|()| sleep.wait()).expect("ended");
        assert_eq!(places.variables, Some(None));
        assert_eq!(Places::of([&places].into_iter()), []);
    }
}
