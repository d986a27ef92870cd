//! Defaults of pipes, set while programs run, and sizes of pipes in use.

mod calibrate;
mod live;

pub use crate::pipe::defaults::{Settings, caches, parse_size, path};
pub use calibrate::{Step, calibrate};
pub use live::{Ask, ask};
pub use weir_policy::pipe::{Caches, Levers};
