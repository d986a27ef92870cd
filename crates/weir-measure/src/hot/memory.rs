//! Which file's code is where in the memory of each sampled process.

use super::records::Mapped;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_sys::Pid;
use weir_sys::proc::{Mapping, Mappings, is_shown};

/// Most processes whose memory is known at a time.
const MOST_PROCESSES: usize = 4096;
/// Most parts of one process's memory.
const MOST_PARTS: usize = 4096;

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
        self.of.retain(|pid, _| is_shown(*pid));
        while self.of.len() >= MOST_PROCESSES {
            self.of.pop_first();
        }
    }
}

/// Reads the code that a process has mapped; nothing where it has ended.
fn mapped(pid: Pid) -> Vec<Rc<Mapped>> {
    let parts = Mappings::of(pid);
    parts.iter().filter_map(code).take(MOST_PARTS).map(Rc::new).collect()
}

fn code(part: Mapping) -> Option<Mapped> {
    let Mapping { start: address, end, offset, device, inode, path, .. } = part;
    let bytes = end.checked_sub(address).filter(|_| part.is_code)?;
    Some(Mapped { address, bytes, offset, device, inode, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_taken_and_others_are_not() {
        let line = |line| code(Mapping::parse(line)?);
        let text = "7f10-7f20 r-xp 00002000 fe:00 1234                       /usr/lib/a b.so";
        let path = String::from("/usr/lib/a b.so");
        let (address, bytes, offset, inode) = (0x7f10, 0x10, 0x2000, 1234);
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(line(text), Some(Mapped { address, bytes, offset, device, inode, path }));
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
