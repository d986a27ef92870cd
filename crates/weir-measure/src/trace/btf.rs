//! What the kernel says of its own types (BTF): where the members of a struct lie, and how many
//! arguments a tracepoint has.

use crate::bytes::{half, word};

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
const POINTER: u32 = 2;
const STRUCT: u32 = 4;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 13;

/// The kernel's types.
pub struct Types<'a> {
    types: &'a [u8],
    names: &'a [u8],
}

#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    kind: u32,
    /// Whether offsets of members also bear the sizes of bit fields.
    packed: bool,
    /// Its size, or the number of the type that it refers to.
    refers: u32,
    parts: u32,
    /// What follows for each part.
    rest: &'a [u8],
}

impl<'a> Types<'a> {
    /// Takes the file apart; `None` if it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Types<'a>> {
        if half(bytes, 0)? != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let part = |offset: usize, length: usize| {
            let from = header.checked_add(word(bytes, offset)? as usize)?;
            bytes.get(from..from.checked_add(word(bytes, length)? as usize)?)
        };
        let (types, names) = (part(8, 12)?, part(16, 20)?);
        (header >= HEADER).then_some(Types { types, names })
    }

    /// Returns the offsets in bytes of these members of a struct.
    pub fn offsets<const N: usize>(&self, of: &str, members: [&str; N]) -> Option<[i32; N]> {
        let found = self.all().find(|it| it.kind == STRUCT && self.is(it.name, of))?;
        let offset = |member: &str| {
            let mut parts = found.rest.chunks_exact(12).take(found.parts as usize);
            let part = parts.find(|part| word(part, 0).is_some_and(|it| self.is(it, member)))?;
            let bits = word(part, 8)?;
            let bits = if found.packed { bits & 0xff_ffff } else { bits };
            i32::try_from(bits / 8).ok().filter(|_| bits.is_multiple_of(8))
        };
        let mut offsets = [0; N];
        for (to, member) in offsets.iter_mut().zip(members) {
            *to = offset(member)?;
        }
        Some(offsets)
    }

    /// Returns the number of arguments of a tracepoint.
    pub fn arguments(&self, tracepoint: &str) -> Option<usize> {
        let name = format!("btf_trace_{tracepoint}");
        let alias = self.all().find(|it| it.kind == TYPEDEF && self.is(it.name, &name))?;
        let pointer = self.at(alias.refers).filter(|it| it.kind == POINTER)?;
        let function = self.at(pointer.refers).filter(|it| it.kind == FUNCTION)?;
        // The first is the tracepoint's own.
        (function.parts as usize).checked_sub(1)
    }

    fn at(&self, number: u32) -> Option<Type<'a>> {
        // The first type has number 1.
        self.all().nth((number as usize).checked_sub(1)?)
    }

    fn is(&self, name: u32, wanted: &str) -> bool {
        let rest = self.names.get(name as usize..).unwrap_or_default();
        rest.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    fn all(&self) -> impl Iterator<Item = Type<'a>> {
        let mut left = self.types;
        std::iter::from_fn(move || {
            let (name, info, refers) = (word(left, 0)?, word(left, 4)?, word(left, 8)?);
            let (kind, parts) = (info >> 24 & 0x1f, info & 0xffff);
            let length = match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                STRUCT | 5 | 15 | 19 => parts as usize * 12,
                6 | FUNCTION => parts as usize * 8,
                2 | 7..=12 | 16 | 18 => 0,
                // A kind of a later kernel: what follows it cannot be found.
                _ => return None,
            };
            let (rest, after) = left.get(12..)?.split_at_checked(length)?;
            left = after;
            Some(Type { name, kind, packed: info >> 31 != 0, refers, parts, rest })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_own_types_are_read() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return println!("SKIPPED: the kernel does not tell its types");
        };
        let types = Types::parse(&bytes).expect("types");
        let [pid, tgid] = types.offsets("task_struct", ["pid", "tgid"]).expect("members");
        assert_eq!(tgid - pid, 4);
        assert_eq!(types.offsets("task_struct", ["no_such_member"]), None);
        assert_eq!(types.arguments("sched_wakeup"), Some(1));
        assert!(types.arguments("sched_switch").is_some_and(|count| (3..=4).contains(&count)));
        assert_eq!(types.arguments("no_such_tracepoint"), None);
    }

    #[test]
    fn what_is_no_list_of_types_is_none() {
        for bytes in
            [&b""[..], b"\x9f\xeb", b"\x9f\xeb\x01\0\xff\xff\xff\xff\xff\xff\xff\xff", &[0; 64]]
        {
            assert!(Types::parse(bytes).is_none());
        }
        // A header and types that are cut.
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24_u32, 0, 16, 16, 4] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([0xff; 20]);
        let types = Types::parse(&bytes).expect("a header");
        assert_eq!(types.offsets("task_struct", ["pid"]), None);
    }
}
