//! An assembler for the kernel's virtual machine, as far as the programs here need it.

/// A register. The kernel's functions take 1 to 5, return 0, and keep 6 to 9; 10 is the end of the
/// stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    Stack,
}

/// A place to which a jump leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// The kernel's functions, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    Lookup = 1,
    Update = 2,
    Delete = 3,
    Time = 5,
    Read = 113,
    Output = 130,
    CurrentTask = 158,
    TaskRegisters = 175,
}

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Program {
    instructions: Vec<u64>,
    /// Where each label is.
    labels: Vec<Option<usize>>,
    /// The jumps, each with its label.
    jumps: Vec<(usize, Label)>,
}

const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
const LOAD_WORD: u8 = 0x61;
const LOAD: u8 = 0x79;
const STORE_WORD: u8 = 0x63;
const STORE: u8 = 0x7b;
const STORE_WORD_NUMBER: u8 = 0x62;
const ATOMIC: u8 = 0xdb;
const LOAD_MAP: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const JUMP: u8 = 0x05;
const JUMP_EQUAL_NUMBER: u8 = 0x15;
const JUMP_UNEQUAL_NUMBER: u8 = 0x55;
const JUMP_EQUAL: u8 = 0x1d;

impl Program {
    fn put(&mut self, code: u8, to: Register, from: u8, offset: i16, number: i32) {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = number.to_le_bytes();
        let bytes = [code, to as u8 | from << 4, low, high, a, b, c, d];
        self.instructions.push(u64::from_le_bytes(bytes));
    }

    pub fn copy(&mut self, to: Register, from: Register) {
        self.put(MOVE, to, from as u8, 0, 0);
    }

    pub fn number(&mut self, to: Register, number: i32) {
        self.put(MOVE_NUMBER, to, 0, 0, number);
    }

    /// Leaves the lowest byte of a register.
    pub fn low_byte(&mut self, of: Register) {
        self.put(AND_NUMBER, of, 0, 0, 0xff);
    }

    /// Sets a register to an address: that in another one, and this much on.
    pub fn address(&mut self, to: Register, from: Register, offset: i32) {
        self.copy(to, from);
        self.put(ADD_NUMBER, to, 0, 0, offset);
    }

    /// Loads 8 bytes.
    pub fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.put(LOAD, to, from as u8, offset, 0);
    }

    /// Loads 4 bytes.
    pub fn load_word(&mut self, to: Register, from: Register, offset: i16) {
        self.put(LOAD_WORD, to, from as u8, offset, 0);
    }

    /// Stores 8 bytes on the stack.
    pub fn store(&mut self, offset: i16, from: Register) {
        self.put(STORE, Register::Stack, from as u8, offset, 0);
    }

    /// Stores 4 bytes on the stack.
    pub fn store_word(&mut self, offset: i16, from: Register) {
        self.put(STORE_WORD, Register::Stack, from as u8, offset, 0);
    }

    /// Stores a number of 4 bytes on the stack.
    pub fn store_number(&mut self, offset: i16, number: i32) {
        self.put(STORE_WORD_NUMBER, Register::Stack, 0, offset, number);
    }

    /// Adds to 8 bytes of memory, atomically.
    pub fn add_to(&mut self, to: Register, from: Register) {
        self.put(ATOMIC, to, from as u8, 0, 0);
    }

    /// Sets a register to a map, by its descriptor.
    pub fn map(&mut self, to: Register, fd: i32) {
        const BY_DESCRIPTOR: u8 = 1;
        self.put(LOAD_MAP, to, BY_DESCRIPTOR, 0, fd);
        self.instructions.push(0);
    }

    pub fn call(&mut self, helper: Helper) {
        self.put(CALL, Register::R0, 0, 0, helper as i32);
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.put(JUMP, Register::R0, 0, 0, 0);
    }

    pub fn jump_if_equal(&mut self, register: Register, number: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.put(JUMP_EQUAL_NUMBER, register, 0, 0, number);
    }

    pub fn jump_unless_equal(&mut self, register: Register, number: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.put(JUMP_UNEQUAL_NUMBER, register, 0, 0, number);
    }

    pub fn jump_if_same(&mut self, left: Register, right: Register, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.put(JUMP_EQUAL, left, right as u8, 0, 0);
    }

    /// Ends the program, and returns its instructions.
    pub fn finish(mut self) -> Vec<u64> {
        self.number(Register::R0, 0);
        self.put(EXIT, Register::R0, 0, 0, 0);
        for (at, label) in self.jumps {
            let Some(target) = self.labels[label.0] else { continue };
            // All jumps lead forward, and no program here is longer.
            let distance = u16::try_from(target - at - 1).unwrap_or(0);
            self.instructions[at] |= u64::from(distance) << 16;
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `llvm-mc -triple=bpf` encodes them.
    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut program = Program::default();
        let end = program.label();
        program.load(Register::R7, Register::R6, 8);
        program.jump_if_equal(Register::R7, 0, end);
        program.store_word(-4, Register::R7);
        program.address(Register::R2, Register::Stack, -4);
        program.call(Helper::Time);
        program.place(end);
        let expected: [u64; 8] = [
            0x0000_0000_0008_6779,
            0x0000_0000_0004_0715,
            0x0000_0000_fffc_7a63,
            0x0000_0000_0000_a2bf,
            0xffff_fffc_0000_0207,
            0x0000_0005_0000_0085,
            0x0000_0000_0000_00b7,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(program.finish(), expected);
    }
}
