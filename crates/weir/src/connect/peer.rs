//! Who is at the other end, and how it went.

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process that connected; 0 where it is of a pid namespace that this process does not see,
    /// in which it has no number here.
    pub pid: i32,
    /// Its user; one of a user namespace that has no number here is the kernel's overflow user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// How a writer ended, or a channel that this side did not close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It closed its end.
    Closed,
    /// It died.
    Died,
    /// What it wrote was nonsense, or the reader did not want it any more.
    ShutOut,
}
