//! Regions from outside, by what docs/contracts/region.md promises of them: one program for all.

#[path = "../../../weir/tests/common/mod.rs"]
mod common;
#[path = "../../../weir/tests/common/raw.rs"]
mod raw;
#[path = "../common/regions.rs"]
mod regions;
#[path = "../../../weir/tests/common/slow.rs"]
mod slow;

mod region;
mod region_namespaces;
mod region_pool;
mod region_shared;
mod region_together;
