//! The defaults of pipes, which can be set while programs run, and the sizes of pipes in use.

mod calibrate;
mod live;

pub use crate::pipe::defaults::{Caches, Habits, Settings, caches, path};
pub use calibrate::{Progress, calibrate};
pub use live::{Ask, ask};
