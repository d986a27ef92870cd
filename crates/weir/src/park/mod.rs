//! Sleeping and waking: the futex, the barrier, the doorbell for poll, and one wait over all.

pub mod barrier;
pub mod doorbell;
pub mod futex;
pub mod wait;
