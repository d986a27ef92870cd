//! The state of a stage at an instant.
//!
//! A stage may have many tasks (threads and child processes). Its state is the strongest of theirs:
//! one task on a CPU means that the stage works, however many others wait. Waits for another task
//! of the same stage (locks, children) are the weakest, since that task's own state shows what the
//! stage really waits for; measured on zstd, whose first thread sleeps on a futex while a worker
//! reads.

use strum::VariantArray;

/// The state of a task or of a stage. Ordered: a greater state is stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, VariantArray)]
pub enum TaskState {
    /// Stopped by job control or a tracer.
    Stopped,
    /// Blocked on something hidden (no permission), or in a call without a state here.
    #[default]
    Unknown,
    /// Waiting for a child, or for another process of the same stage.
    Child,
    /// Waiting for a lock: a futex, or a file lock.
    Lock,
    /// Waiting for a timer or a signal.
    Sleep,
    /// Waiting for data on the stage's input.
    BlockedIn,
    /// Waiting for room in the stage's output.
    BlockedOut,
    /// Waiting for a terminal or another device that is neither its input nor its output.
    Device,
    /// Waiting for another file, pipe or FIFO.
    File,
    /// Waiting for a socket.
    Network,
    /// Waiting for storage.
    Disk,
    /// On a CPU, or waiting for one.
    Running,
}

impl TaskState {
    /// All states, weakest first.
    pub const ALL: &[TaskState] = TaskState::VARIANTS;

    /// Returns its position in [`TaskState::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_complete_and_in_order() {
        for (position, state) in TaskState::ALL.iter().enumerate() {
            assert_eq!(state.index(), position);
        }
        assert!(TaskState::ALL.is_sorted());
    }

    #[test]
    fn work_beats_waiting_and_a_read_beats_a_lock() {
        assert!(TaskState::Running > TaskState::Disk);
        assert!(TaskState::BlockedIn > TaskState::Lock);
        assert!(TaskState::Sleep > TaskState::Child);
    }
}
