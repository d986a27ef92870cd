//! Files of `/proc` about the whole host.

use super::{ProcContents, ProcDir};
use crate::Pid;
use std::fs::File;

/// Most bytes read of such a file.
const MOST_BYTES: usize = 16 << 20;

/// A text about the whole host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFile {
    /// The CPUs and what they can do.
    CpuInfo,
    /// The drivers of devices, by number.
    Devices,
    /// The use of memory.
    MemInfo,
    /// The network devices, of the network namespace of this process.
    NetDev,
    /// How long tasks waited for a CPU.
    CpuPressure,
    /// How long tasks waited for memory.
    MemoryPressure,
    /// The use of the CPUs.
    Stat,
    /// Counts of the memory management.
    VmStat,
}

impl HostFile {
    /// Reads it; empty where it cannot be read.
    pub fn read(self) -> String {
        let (dir, file) = match self {
            HostFile::CpuInfo => (ProcDir::Host, "cpuinfo"),
            HostFile::Devices => (ProcDir::Host, "devices"),
            HostFile::MemInfo => (ProcDir::Host, "meminfo"),
            HostFile::NetDev => (ProcDir::This, "net/dev"),
            HostFile::CpuPressure => (ProcDir::Host, "pressure/cpu"),
            HostFile::MemoryPressure => (ProcDir::Host, "pressure/memory"),
            HostFile::Stat => (ProcDir::Host, "stat"),
            HostFile::VmStat => (ProcDir::Host, "vmstat"),
        };
        dir.read_whole(file, MOST_BYTES).unwrap_or_default()
    }
}

/// Reads a setting of the kernel that is one number, such as `fs.pipe-max-size`.
pub fn sysctl<T: std::str::FromStr>(name: &str) -> Option<T> {
    let parse = |text: &[u8]| std::str::from_utf8(text).ok()?.trim().parse().ok();
    ProcDir::Host.read(format_args!("sys/{}", name.replace('.', "/")), parse).ok()
}

/// Opens the list of the kernel's functions.
pub fn kernel_symbols() -> Option<File> {
    File::open("/proc/kallsyms").ok()
}

/// The newest id that the kernel assigned in this pid namespace: the last field of `loadavg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestId(pub Pid);

impl ProcContents for NewestId {
    const FILE: &str = "loadavg";

    fn parse(text: &[u8]) -> Option<NewestId> {
        let id = std::str::from_utf8(text).ok()?.split_ascii_whitespace().next_back()?;
        id.parse().ok().map(NewestId)
    }
}

/// Returns the largest id that the kernel assigns; the usual one where that is hidden.
pub fn largest_id() -> Pid {
    sysctl::<Pid>("kernel.pid_max").map_or(32_768, |most| most.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{ProcFile, is_child};

    #[test]
    fn a_new_process_moves_the_newest_id() {
        let loadavg = ProcFile::<NewestId>::open(ProcDir::Host).expect("loadavg");
        let before = loadavg.read().expect("an id");
        let mut child = std::process::Command::new("true").spawn().expect("true");
        assert_ne!(loadavg.read().expect("an id"), before);
        let (pid, me) = (child.id() as Pid, std::process::id() as Pid);
        let counted = std::path::Path::new("/proc/thread-self/children").exists();
        assert_eq!((is_child(pid, me), is_child(me, pid)), (counted, false));
        child.wait().expect("waited");
        assert!(pid <= largest_id());
    }

    #[test]
    fn the_host_has_a_cpu() {
        assert!(HostFile::Stat.read().starts_with("cpu "));
        assert_eq!(sysctl::<u64>("fs.nothing"), None);
    }
}
