//! The memory of a region, on the pager's side and on the program's. All `unsafe` of this crate is
//! here.

mod account;
mod exclusive_file;
mod region;
mod shared_region;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use account::AccountWords;
pub use exclusive_file::ExclusiveFile;
pub(crate) use region::{
    FrontBytes, KernelPaged, PageTransfers, RegionFront, RegionMemory, file_bytes,
};
pub(crate) use shared_region::{MemberFront, MemberMemory, SharedFronts};
