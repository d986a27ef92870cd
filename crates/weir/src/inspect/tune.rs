//! The defaults of pipes, which can be set while programs run, and the sizes of pipes in use.

mod live;

pub use crate::pipe::defaults::{Caches, Settings, caches, host_path, path};
pub use live::{Ask, ask};
