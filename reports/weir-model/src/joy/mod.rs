//! Joy 1980: system calls, switches, packets and paging of the VAX-11/780.

pub mod packets;
pub mod paging;
mod queues;
pub mod swapping;
pub mod switch;
pub mod syscall;
