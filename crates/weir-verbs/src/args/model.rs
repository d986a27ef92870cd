//! The options of `weir model`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ModelOptions {
    /// An experiment (weir model list), or: all, list, machines, predictions, storm
    #[arg(value_name = "WHAT")]
    pub what: String,
    /// Run the experiment on this machine (weir model machines)
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Write the predictions into DIR
    #[arg(long, value_name = "DIR", required_if_eq("what", "predictions"))]
    pub out: Option<PathBuf>,
    /// Run the storms of so many seeds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub seeds: u64,
    /// Begin with this seed; alone, run only its storm
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
}
