//! The records that the kernel writes for sampled tasks.
//!
//! They hold names that programs choose. A record that is too short for what it should hold is left
//! out, and whatever follows a length that cannot be is left out too.

use crate::bytes::{half, long, word};
use weir_sys::Pid;

/// What the kernel reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A program counter.
    Sample { event: u64, pid: Pid, address: u64, kernel: bool },
    /// A file is mapped, or memory in which a program writes code.
    Map { pid: Pid, map: Mapped },
    /// A process becomes another program.
    Exec { pid: Pid },
    /// A process or thread begins.
    Fork { pid: Pid, parent: Pid, task: Pid },
    /// Records were dropped.
    Lost { records: u64 },
}

/// A part of a process's memory that has code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Where it begins.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// Where it begins in its file.
    pub offset: u64,
    /// The device on which that file lies.
    pub device: u64,
    /// The number of that file.
    pub inode: u64,
    /// The path of that file, or a name such as `[vdso]`.
    pub path: String,
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
/// Who had the CPU, in the word behind the type; and the bit that a new name comes from an exec.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const COMM_EXEC: u16 = 1 << 13;
/// Length of the head of a record.
const HEAD: usize = 8;
/// What is at the end of each record but samples: ids, time, number of the event.
const TRAILER: usize = 24;

/// Takes records apart, each with its time.
pub fn parse(mut bytes: &[u8]) -> Vec<(u64, Record)> {
    let mut records = Vec::new();
    while let Some(length) = half(bytes, 6).map(usize::from) {
        if length < HEAD || length > bytes.len() {
            break;
        }
        let (record, rest) = bytes.split_at(length);
        records.extend(one(record));
        bytes = rest;
    }
    records
}

fn one(bytes: &[u8]) -> Option<(u64, Record)> {
    let (kind, misc, body) = (word(bytes, 0)?, half(bytes, 4)?, bytes.get(HEAD..)?);
    if kind == SAMPLE {
        let (event, address, pid) = (long(body, 0)?, long(body, 8)?, id(body, 16)?);
        let kernel = misc & MODE == MODE_KERNEL;
        return Some((long(body, 24)?, Record::Sample { event, pid, address, kernel }));
    }
    let end = body.len().checked_sub(TRAILER)?;
    let time_ns = long(body, end + 8)?;
    let body = &body[..end];
    let record = match kind {
        MMAP2 => Record::Map {
            pid: id(body, 0)?,
            map: Mapped {
                address: long(body, 8)?,
                bytes: long(body, 16)?,
                offset: long(body, 24)?,
                device: rustix::fs::makedev(word(body, 32)?, word(body, 36)?),
                inode: long(body, 40)?,
                path: text(body.get(64..)?),
            },
        },
        COMM if misc & COMM_EXEC != 0 => Record::Exec { pid: id(body, 0)? },
        FORK => Record::Fork { pid: id(body, 0)?, parent: id(body, 4)?, task: id(body, 8)? },
        LOST => Record::Lost { records: long(body, 8)? },
        LOST_SAMPLES => Record::Lost { records: long(body, 0)? },
        _ => return None,
    };
    Some((time_ns, record))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn id(bytes: &[u8], at: usize) -> Option<Pid> {
    Pid::try_from(word(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEAD + body.len()) as u16;
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &length.to_ne_bytes(), body].concat()
    }

    fn longs(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_sample_and_a_mapping_are_told_with_their_times() {
        let sample = record(SAMPLE, MODE_KERNEL, &longs(&[77, 0xfff0, 5 | 6 << 32, 900]));
        let mut map = longs(&[5 | 5 << 32, 0x1000, 0x2000, 0x300, 8 | 1 << 32, 44, 0, 0]);
        map.extend(b"/bin/cat");
        map.extend(longs(&[0, 5 | 5 << 32, 800, 77]));
        let bytes = [sample, record(MMAP2, 2, &map)].concat();
        let path = String::from("/bin/cat");
        let (address, bytes_long, offset, inode) = (0x1000, 0x2000, 0x300, 44);
        let device = rustix::fs::makedev(8, 1);
        let map = Mapped { address, bytes: bytes_long, offset, device, inode, path };
        let sample = Record::Sample { event: 77, pid: 5, address: 0xfff0, kernel: true };
        assert_eq!(parse(&bytes), [(900, sample), (800, Record::Map { pid: 5, map })]);
    }

    #[test]
    fn what_is_cut_short_is_left_out() {
        let sample = record(SAMPLE, 2, &longs(&[1, 2, 3, 4]));
        assert_eq!(parse(&sample[..sample.len() - 1]), []);
        assert_eq!(parse(&record(SAMPLE, 2, &longs(&[1, 2]))), []);
        assert_eq!(parse(&record(MMAP2, 2, &longs(&[1, 2]))), []);
        assert_eq!(parse(&[9, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }
    }
}
