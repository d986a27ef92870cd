//! Who is at the other end of a connection, and how it ended.

/// The process at the other end, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process that connected; 0 if its pid namespace is not visible from here.
    pub pid: i32,
    /// Its user. A user without a number in this user namespace is the kernel's overflow user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// How a writer ended, or a channel that the other side closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It closed its end.
    Closed,
    /// It died.
    Died,
    /// The reader shut it out: it broke the protocol, or the reader did not want it any longer.
    ShutOut,
}
