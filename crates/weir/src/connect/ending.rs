//! How the other side of a connection ended.

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
