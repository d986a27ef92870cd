//! Which file's code is where in the memory of each sampled process.

use super::records::Mapped;
use crate::proc::{device_in, read_whole};
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_sys::Pid;

/// Most processes whose memory is known at a time.
const MOST_PROCESSES: usize = 4096;
/// Most parts of one process's memory.
const MOST_PARTS: usize = 4096;
/// Most bytes read of a list of mappings.
const MOST_BYTES: usize = 4 << 20;

/// The memory of all sampled processes.
#[derive(Debug, Default)]
pub struct Memory {
    of: BTreeMap<Pid, Rc<Vec<Rc<Mapped>>>>,
}

impl Memory {
    /// Reads what a process has mapped now.
    pub fn read(&mut self, pid: Pid) {
        self.of.insert(pid, Rc::new(mapped(pid)));
    }

    /// Notes a new mapping.
    pub fn map(&mut self, pid: Pid, map: Mapped) {
        self.make_room(pid);
        let parts = Rc::make_mut(self.of.entry(pid).or_default());
        if parts.len() >= MOST_PARTS {
            parts.remove(0);
        }
        parts.push(Rc::new(map));
    }

    /// Notes that a process becomes another program.
    pub fn exec(&mut self, pid: Pid) {
        self.of.insert(pid, Rc::default());
    }

    /// Notes that a process begins with the memory of its parent.
    pub fn fork(&mut self, pid: Pid, parent: Pid) {
        // A thread has the memory of its process.
        if let Some(parts) = self.of.get(&parent).filter(|_| pid != parent).cloned() {
            self.make_room(pid);
            self.of.insert(pid, parts);
        }
    }

    /// Returns what is mapped at an address. The last mapping counts: it replaced older ones.
    pub fn at(&mut self, pid: Pid, address: u64) -> Option<Rc<Mapped>> {
        if !self.of.contains_key(&pid) {
            self.make_room(pid);
            self.read(pid);
        }
        let holds = |part: &&Rc<Mapped>| {
            address.checked_sub(part.address).is_some_and(|offset| offset < part.bytes)
        };
        self.of.get(&pid)?.iter().rev().find(holds).cloned()
    }

    /// Forgets processes that have ended, or else some that have not, where there are too many.
    fn make_room(&mut self, new: Pid) {
        if self.of.len() < MOST_PROCESSES || self.of.contains_key(&new) {
            return;
        }
        self.of.retain(|pid, _| std::fs::exists(format!("/proc/{pid}")).unwrap_or(false));
        while self.of.len() >= MOST_PROCESSES {
            self.of.pop_first();
        }
    }
}

/// Reads the code that a process has mapped; nothing where it has ended.
fn mapped(pid: Pid) -> Vec<Rc<Mapped>> {
    let text = read_whole(&format!("/proc/{pid}/maps"), MOST_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(line).take(MOST_PARTS).map(Rc::new).collect()
}

/// Reads a line of a list of mappings, if that part has code.
fn line(line: &str) -> Option<Mapped> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (address, end) = (hex(start)?, hex(end)?);
    words.next().filter(|access| access.as_bytes().get(2) == Some(&b'x'))?;
    let offset = hex(words.next()?)?;
    let device = device_in(words.next()?)?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_start().to_owned();
    Some(Mapped { address, bytes: end.checked_sub(address)?, offset, device, inode, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_taken_and_others_are_not() {
        let code = "7f10-7f20 r-xp 00002000 fe:00 1234                       /usr/lib/a b.so";
        let path = String::from("/usr/lib/a b.so");
        let (address, bytes, offset, inode) = (0x7f10, 0x10, 0x2000, 1234);
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(line(code), Some(Mapped { address, bytes, offset, device, inode, path }));
        assert_eq!(line("7f10-7f20 rw-p 0 fe:00 1234 /x"), None);
        assert_eq!(line("7f20-7f10 r-xp 0 fe:00 1234 /x"), None);
        assert_eq!(line("nonsense"), None);
    }

    #[test]
    fn the_newest_mapping_counts_and_a_child_has_those_of_its_parent() {
        let mut memory = Memory::default();
        let map = |address, inode| Mapped { address, bytes: 100, inode, ..Mapped::default() };
        memory.exec(-7);
        memory.map(-7, map(1000, 1));
        memory.map(-7, map(1050, 2));
        memory.fork(-8, -7);
        memory.exec(-7);
        let at = |memory: &mut Memory, pid, at| memory.at(pid, at).map(|part| part.inode);
        assert_eq!(at(&mut memory, -7, 1050), None);
        assert_eq!(at(&mut memory, -8, 1049), Some(1));
        assert_eq!(at(&mut memory, -8, 1050), Some(2));
        assert_eq!(at(&mut memory, -8, 1150), None);
    }
}
