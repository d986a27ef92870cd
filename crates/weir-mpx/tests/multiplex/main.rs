//! An mpx from outside, by what docs/contracts/mpx.md promises of it: one program for all.

#[path = "../../../weir/tests/common/mod.rs"]
mod common;
#[path = "../common/exchange.rs"]
mod exchange;
#[path = "../../../weir/tests/common/follow.rs"]
mod follow;
#[path = "../../../weir/tests/common/raw.rs"]
mod raw;
#[path = "../../../weir/tests/common/slow.rs"]
mod slow;
#[path = "../../../weir/tests/common/words.rs"]
mod words;

mod mpx;
mod mpx_account;
mod mpx_descriptors;
mod mpx_elastic;
mod mpx_gone;
mod mpx_model;
mod mpx_namespaces;
mod mpx_one_word;
mod mpx_panic;
mod mpx_pollable;
mod mpx_slow_close;
mod mpx_wait;
