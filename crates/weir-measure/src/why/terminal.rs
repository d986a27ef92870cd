//! The other sides of pseudo-terminals.

use super::open;
use std::path::Path;
use weir_doctor::why::Cause;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, FdInfo, FileKind, link, seen_by};

/// The number of the driver of the other sides (Documentation/admin-guide/devices.txt).
const OTHER_SIDES: u32 = 136;

/// Returns the wait of the answering side of a pseudo-terminal; `None` for anything else. Nothing is
/// opened: that would keep the terminal from hanging up.
pub fn other_side(
    host: &open::Host,
    pid: Pid,
    fd: i32,
    what: &Descriptor,
    writes: bool,
) -> Option<Cause> {
    (what.kind == FileKind::PtyMaster).then_some(())?;
    let index = FdInfo::of(pid, fd)?.terminal?;
    let name = link(pid, fd)?;
    let directory = name.parent()?;
    // Beside /dev/ptmx or beside /dev/pts/ptmx, whichever was opened.
    let names = [directory.join("pts"), directory.to_owned()].map(|it| it.join(index.to_string()));
    let (path, other) = names.iter().find_map(|name| Some((name, terminal(pid, name, index)?)))?;
    let (openings, _) = host.openings(&other);
    let other_end = |one: &open::Opening| if writes { one.reads } else { one.writes };
    let mut holders: Vec<Pid> = openings.into_iter().filter(other_end).map(|one| one.pid).collect();
    holders.dedup();
    holders.retain(|holder| *holder != pid);
    Some(Cause::Terminal { path: path.to_string_lossy().into_owned(), holders, writes })
}

/// Returns the file of a terminal with this number, as the process sees it.
fn terminal(pid: Pid, name: &Path, index: u32) -> Option<Descriptor> {
    let stat = rustix::fs::stat(seen_by(pid, name.to_str()?)?).ok()?;
    (stat.st_rdev == rustix::fs::makedev(OTHER_SIDES, index)).then_some(())?;
    Some(Descriptor { device: stat.st_dev, inode: stat.st_ino, kind: FileKind::Device })
}
