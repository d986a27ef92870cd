//! The programs that run in the kernel: at each switch of a CPU from one task to another, at each
//! wake-up, and when tasks begin, become another program, and end.
//!
//! All share a map of the tasks that are traced. What others do costs them one look into it.

use super::assembler::{Helper, Program, Register};
use super::btf::Types;
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, Stack};

/// What an event tells, by its number.
pub mod kind {
    pub const BLOCKS: u32 = 1;
    pub const PREEMPTED: u32 = 2;
    pub const RUNS: u32 = 3;
    pub const WAKES: u32 = 4;
    pub const FORK: u32 = 5;
    pub const EXEC: u32 = 6;
    pub const EXIT: u32 = 7;
}

/// In the map of tasks: it is traced with what it starts, or only what it starts.
pub const TRACED: u32 = 1;
pub const ONLY_CHILDREN: u32 = 2;

/// Bytes of an event, and of one that also has registers.
pub const SHORT: usize = 24;
pub const LONG: usize = 96;
/// Where an event is on the stack, and its parts.
const EVENT: i16 = -96;
const TIME: i16 = EVENT;
const KIND: i16 = EVENT + 8;
const TASK: i16 = EVENT + 12;
const PROCESS: i16 = EVENT + 16;
const EXTRA: i16 = EVENT + 20;
const REGISTERS: i16 = EVENT + 24;
/// Behind the event: a key or a value of a map.
const KEY: i16 = -100;
const VALUE: i16 = -104;

/// The descriptors of the maps.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    pub tasks: i32,
    pub ring: i32,
    pub lost: i32,
}

/// What the programs need to know of this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pid: i32,
    tgid: i32,
    /// The state within the task; not needed where the tracepoint tells it.
    state: Option<i32>,
    /// The first of the registers that are kept.
    registers: i32,
}

impl Layout {
    /// Finds it in the kernel's types; `None` where they are not as expected.
    pub fn find(types: &Types<'_>) -> Option<Layout> {
        let [pid, tgid] = types.offsets("task_struct", ["pid", "tgid"])?;
        let [registers, di, last] = types.offsets("pt_regs", ["r10", "di", "orig_ax"])?;
        // Nine words: r10, r9, r8, ax, cx, dx, si, di, orig_ax.
        if (di - registers, last - registers) != (56, 64) {
            return None;
        }
        let state = match types.arguments("sched_switch")? {
            4.. => None,
            _ => {
                let [state] = types
                    .offsets("task_struct", ["__state"])
                    .or_else(|| types.offsets("task_struct", ["state"]))?;
                Some(state)
            }
        };
        Some(Layout { pid, tgid, state, registers })
    }
}

/// Writes one program.
struct Writer {
    program: Program,
    maps: Maps,
    layout: Layout,
}

/// Returns each program with the tracepoint at which it runs.
pub fn programs(maps: Maps, layout: Layout) -> [(&'static std::ffi::CStr, Vec<u64>); 5] {
    let write = |body: fn(&mut Writer)| {
        let mut writer = Writer { program: Program::default(), maps, layout };
        writer.program.copy(R6, R1);
        body(&mut writer);
        writer.program.finish()
    };
    [
        (c"sched_switch", write(Writer::switch)),
        (c"sched_wakeup", write(Writer::wakeup)),
        (c"sched_process_fork", write(Writer::fork)),
        (c"sched_process_exec", write(Writer::exec)),
        (c"sched_process_exit", write(Writer::exit)),
    ]
}

impl Writer {
    /// Copies 4 bytes of the kernel to the stack.
    fn read(&mut self, to: i16, from: Register, offset: i32) {
        let it = &mut self.program;
        it.address(R1, Stack, to.into());
        it.number(R2, 4);
        it.address(R3, from, offset);
        it.call(Helper::Read);
    }

    /// Looks up the task whose number is the event's; the address of what the map says is in R0.
    fn look_up(&mut self) {
        let it = &mut self.program;
        it.map(R1, self.maps.tasks);
        it.address(R2, Stack, TASK.into());
        it.call(Helper::Lookup);
    }

    /// Goes to `label` unless the task at the address in a register is traced; its number is the
    /// event's then.
    fn unless_traced(&mut self, task: Register, label: super::assembler::Label) {
        self.read(TASK, task, self.layout.pid);
        self.look_up();
        self.program.jump_if_equal(R0, 0, label);
        self.program.load_word(R1, R0, 0);
        self.program.jump_unless_equal(R1, TRACED as i32, label);
    }

    /// Makes or changes the entry of the task with the event's number.
    fn trace(&mut self) {
        let it = &mut self.program;
        it.store_number(VALUE, TRACED as i32);
        it.map(R1, self.maps.tasks);
        it.address(R2, Stack, TASK.into());
        it.address(R3, Stack, VALUE.into());
        it.number(R4, 0);
        it.call(Helper::Update);
        self.count_lost();
    }

    /// Counts an event as lost unless R0 is 0.
    fn count_lost(&mut self) {
        let it = &mut self.program;
        let done = it.label();
        it.jump_if_equal(R0, 0, done);
        it.store_number(KEY, 0);
        it.map(R1, self.maps.lost);
        it.address(R2, Stack, KEY.into());
        it.call(Helper::Lookup);
        it.jump_if_equal(R0, 0, done);
        it.number(R1, 1);
        it.add_to(R0, R1);
        it.place(done);
    }

    /// Writes the event into the ring. Nobody is woken: whoever reads it does so at ticks.
    fn give(&mut self, kind: u32, bytes: usize) {
        const NO_WAKE_UP: i32 = 1;
        let it = &mut self.program;
        it.store_number(KIND, kind as i32);
        it.call(Helper::Time);
        it.store(TIME, R0);
        it.map(R1, self.maps.ring);
        it.address(R2, Stack, EVENT.into());
        it.number(R3, bytes as i32);
        it.number(R4, NO_WAKE_UP);
        // It takes the map, the event, its length and the flags.
        it.call(Helper::Output);
        self.count_lost();
    }

    fn switch(&mut self) {
        let (next, preempted, given) =
            (self.program.label(), self.program.label(), self.program.label());
        self.clear();
        self.program.load(R7, R6, 8);
        self.program.load(R8, R6, 16);
        self.unless_traced(R7, next);
        match self.layout.state {
            None => self.program.load(R9, R6, 24),
            Some(state) => {
                self.read(EXTRA, R7, state);
                self.program.load_word(R9, Stack, EXTRA);
            }
        }
        self.program.store_word(EXTRA, R9);
        self.program.load(R1, R6, 0);
        // A byte of what is passed says whether it was preempted; the rest is not set.
        self.program.low_byte(R1);
        self.program.jump_unless_equal(R1, 0, preempted);
        self.program.load_word(R1, Stack, EXTRA);
        self.program.jump_if_equal(R1, 0, preempted);
        // The task that blocks is still the present one.
        let it = &mut self.program;
        it.call(Helper::CurrentTask);
        it.copy(R1, R0);
        it.call(Helper::TaskRegisters);
        it.address(R3, R0, self.layout.registers);
        it.address(R1, Stack, REGISTERS.into());
        it.number(R2, (LONG - SHORT) as i32);
        it.call(Helper::Read);
        self.give(kind::BLOCKS, LONG);
        self.program.jump(given);
        self.program.place(preempted);
        self.give(kind::PREEMPTED, SHORT);
        self.program.place(given);
        self.program.place(next);
        let end = self.program.label();
        self.unless_traced(R8, end);
        self.give(kind::RUNS, SHORT);
        self.program.place(end);
    }

    fn wakeup(&mut self) {
        let end = self.program.label();
        self.clear();
        self.program.load(R7, R6, 0);
        self.unless_traced(R7, end);
        self.give(kind::WAKES, SHORT);
        self.program.place(end);
    }

    fn fork(&mut self) {
        let (end, other) = (self.program.label(), self.program.label());
        self.clear();
        self.program.load(R7, R6, 0);
        self.program.load(R8, R6, 8);
        self.read(TASK, R7, self.layout.pid);
        self.look_up();
        self.program.jump_if_equal(R0, 0, end);
        self.program.load_word(R9, R0, 0);
        self.read(TASK, R8, self.layout.pid);
        self.read(PROCESS, R8, self.layout.tgid);
        self.read(EXTRA, R7, self.layout.tgid);
        self.program.jump_if_equal(R9, TRACED as i32, other);
        // A new thread of a process of which only the children are traced.
        self.program.load_word(R1, Stack, PROCESS);
        self.program.load_word(R2, Stack, EXTRA);
        self.program.jump_if_same(R1, R2, end);
        self.program.place(other);
        self.trace();
        self.give(kind::FORK, SHORT);
        self.program.place(end);
    }

    fn exec(&mut self) {
        let (end, same) = (self.program.label(), self.program.label());
        self.clear();
        self.program.load(R7, R6, 0);
        // A thread that becomes another program takes the number of its process.
        self.program.load(R9, R6, 8);
        self.program.store_word(TASK, R9);
        self.look_up();
        self.program.jump_if_equal(R0, 0, end);
        self.program.load_word(R1, R0, 0);
        self.program.jump_unless_equal(R1, TRACED as i32, end);
        self.program.load_word(R1, Stack, TASK);
        self.program.store_word(EXTRA, R1);
        self.read(PROCESS, R7, self.layout.pid);
        self.program.load_word(R1, Stack, PROCESS);
        self.program.load_word(R2, Stack, EXTRA);
        self.program.jump_if_same(R1, R2, same);
        self.forget();
        self.program.load_word(R1, Stack, PROCESS);
        self.program.store_word(TASK, R1);
        self.trace();
        self.program.place(same);
        self.give(kind::EXEC, SHORT);
        self.program.place(end);
    }

    fn exit(&mut self) {
        let end = self.program.label();
        self.clear();
        self.program.load(R7, R6, 0);
        self.unless_traced(R7, end);
        self.forget();
        self.give(kind::EXIT, SHORT);
        self.program.place(end);
    }

    fn forget(&mut self) {
        let it = &mut self.program;
        it.map(R1, self.maps.tasks);
        it.address(R2, Stack, TASK.into());
        it.call(Helper::Delete);
    }

    /// Sets the parts of the event that not every kind has.
    fn clear(&mut self) {
        self.program.store_number(PROCESS, 0);
        self.program.store_number(EXTRA, 0);
    }
}
