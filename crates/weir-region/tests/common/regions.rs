//! What regions have in memory, as the kernel counts it.

#![allow(dead_code, reason = "each test program uses a part")]

use std::os::unix::fs::MetadataExt;

/// What a process's regions have in memory: the blocks of their memory files.
pub fn region_bytes(process: u32) -> u64 {
    let Ok(files) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return 0 };
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let regions = paths.filter(|path| {
        std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("weir-region"))
    });
    regions.filter_map(|path| Some(std::fs::metadata(path).ok()?.blocks() * 512)).sum()
}

/// What of the mappings of memory files of a name is in memory, in a process.
pub fn mapped_bytes(process: u32, name: &str) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("its mappings");
    let (mut is_one, mut bytes) = (false, 0);
    for line in maps.lines() {
        if line.as_bytes().first().is_some_and(u8::is_ascii_uppercase) {
            let kib = line.strip_prefix("Rss:").filter(|_| is_one);
            let kib = kib.and_then(|kib| kib.trim().strip_suffix(" kB"));
            bytes += kib.map_or(0, |kib| kib.parse::<u64>().expect("a number") * 1024);
        } else {
            is_one = line.contains(name);
        }
    }
    bytes
}

/// What a process's pool and its regions have in memory. The process is stopped.
pub fn pool_bytes(process: u32) -> u64 {
    mapped_bytes(process, "/memfd:weir-pool") + region_bytes(process)
}
