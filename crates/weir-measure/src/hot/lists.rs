//! Names of code that is in no file: functions of the kernel, and those that a program wrote while
//! it ran (Java, Node, Python), of which it keeps a list.

use super::symbols::readable;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use weir_sys::Pid;

/// Most bytes read of a list.
const MOST_BYTES: u64 = 64 << 20;
/// A function of the kernel is not longer than this: what is behind the last one is none.
const LONGEST: u64 = 1 << 16;

/// Where functions begin and end, and their names and places.
#[derive(Debug, Default)]
pub struct List {
    starts: BTreeMap<u64, (u64, String, String)>,
}

impl List {
    /// Returns the name and the place of the function at an address.
    pub fn at(&self, address: u64) -> Option<(&str, &str)> {
        let (_, (end, name, place)) = self.starts.range(..=address).next_back()?;
        (address < *end).then_some((name, place))
    }

    fn add(&mut self, line: &str, is_wanted: impl Fn(u64, u64) -> bool, place: &str) -> Option<()> {
        // START LENGTH NAME, in hexadecimal numbers.
        let mut words = line.trim_end().splitn(3, ' ');
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let (start, bytes) = (hex(words.next()?)?, hex(words.next()?)?);
        let (end, name) = (start.checked_add(bytes)?, words.next()?);
        if is_wanted(start, end) {
            self.starts.insert(start, (end, readable(name), place.to_owned()));
        }
        Some(())
    }
}

/// Reads from `/proc/kallsyms` those functions of the kernel that are at these addresses. Nothing
/// where it shows no addresses.
pub fn kernel(addresses: &[u64]) -> List {
    let mut addresses = addresses.to_vec();
    addresses.sort();
    let mut best: Vec<Option<(u64, String, String)>> = vec![None; addresses.len()];
    let mut list = List::default();
    let Some(file) = weir_sys::proc::kernel_symbols() else { return list };
    each_line(file, |line| {
        let mut words = line.split_ascii_whitespace();
        let start = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let is_code = matches!(words.next(), Some("t" | "T" | "w" | "W"));
        let (Some(start), Some(name)) = (start.filter(|start| is_code && *start > 0), words.next())
        else {
            return;
        };
        let place = words.next().map_or("kernel", |module| module.trim_matches(['[', ']']));
        let from = addresses.partition_point(|address| *address < start);
        for (address, best) in addresses[from..].iter().zip(&mut best[from..]) {
            let nearer = best.as_ref().is_none_or(|(known, ..)| *known < start);
            if address - start >= LONGEST {
                break;
            }
            if nearer {
                *best = Some((start, name.to_owned(), place.to_owned()));
            }
        }
    });
    for (address, best) in addresses.iter().zip(best) {
        if let Some((_, name, place)) = best {
            list.starts.insert(*address, (address + 1, name, place));
        }
    }
    list
}

/// Reads the list that a process keeps of the code that it writes, `/tmp/perf-PID.map`: the
/// functions at these addresses. A list of another user is not believed.
pub fn written(pid: Pid, owner: Option<u32>, addresses: &[u64]) -> List {
    let mut list = List::default();
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let path = format!("/tmp/perf-{pid}.map");
    let file = File::options().read(true).custom_flags(nonblock | nofollow).open(path);
    let Ok(file) = file else { return list };
    let Ok(found) = file.metadata() else { return list };
    // Of a process that had ended before anybody asked, this user is the likely owner.
    let owner = owner.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    if !found.is_file() || owner != found.uid() {
        return list;
    }
    let mut addresses = addresses.to_vec();
    addresses.sort();
    let is_wanted = |start: u64, end: u64| {
        let from = addresses.partition_point(|address| *address < start);
        addresses.get(from).is_some_and(|address| *address < end)
    };
    each_line(file, |line| {
        // A line that is not an entry is left out.
        let _ = list.add(line, is_wanted, "written at run time");
    });
    list
}

fn each_line(file: File, mut take: impl FnMut(&str)) {
    let mut lines = BufReader::with_capacity(1 << 16, file.take(MOST_BYTES));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        take(&String::from_utf8_lossy(&line));
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_written_code_names_what_lies_within() {
        let mut list = List::default();
        let all = |_, _| true;
        list.add("7f00 10 Interpreter\n", all, "here");
        list.add("0x7f20 8 LazyCompile:*fib /tmp/a b.js:1", all, "here");
        for hostile in ["", "x y z", "7f00", "7f00 10", "ffffffffffffffff ff too far"] {
            assert_eq!(list.add(hostile, all, "here"), None);
        }
        assert_eq!(list.at(0x7f0f), Some(("Interpreter", "here")));
        assert_eq!(list.at(0x7f10), None);
        assert_eq!(list.at(0x7f27).map(|(name, _)| name), Some("LazyCompile:*fib /tmp/a b.js:1"));
        assert_eq!(list.at(0x7eff), None);
    }

    #[test]
    fn a_list_of_another_user_is_not_believed() {
        let pid = std::process::id() as Pid;
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, "1000 100 mine\n").expect("written");
        let owner = std::fs::metadata(&path).expect("a file").uid();
        let found = |owner| written(pid, owner, &[0x1010]).at(0x1010).map(|(n, _)| n.to_owned());
        let (mine, other) = (found(Some(owner)), found(Some(owner + 1)));
        // The owner of a process that ended early is not known. Only root can give the file away.
        let unknown = found(None);
        let given = std::os::unix::fs::chown(&path, Some(owner + 1), None).map(|()| found(None));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((mine.as_deref(), other), (Some("mine"), None));
        assert_eq!((unknown.as_deref(), given.unwrap_or(None)), (Some("mine"), None));
    }
}
