//! Measuring: where the processes of a pipeline spend their time, and what may be concluded from
//! paired runs.
//!
//! - [`attribution`]: the sampler, which sees what tasks wait for.
//! - [`runner`]: starts the stages of a pipeline, measures them, and reaps them.
//! - [`record`]: what a run gives.

#![forbid(unsafe_code)]

pub mod attribution;
