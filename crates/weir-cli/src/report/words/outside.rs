//! Sentences on what a stage waited for outside the run.

use super::{LONGEST, part_list_of};
use weir_command::units::words::{percent, rough_count, short_time};
use weir_command::widths::cut;
use weir_doctor::facts::{FileAccess, FileWait, FileWaitKind, Peer, PeerKind};
use weir_doctor::outside::{Delay, Limit, round_trips as trips_to};
use weir_doctor::verdict::BusyPart;

/// Who held up a stage of this name that waited for a socket most of the time, and why. `share`: of the run,
/// for which the stage waited.
pub fn held_up(peer: &Peer, limit: &Limit, name: &str, share: f64) -> String {
    let far = match is_lookup(peer) {
        true => format!("{} (a name lookup)", peer_name(peer)),
        false => peer_name(peer),
    };
    let (who, waited) = match limit {
        Limit::Process { program, pid, title, parts, trips } => {
            let title = title.as_ref().map(|title| format!(" ({})", cut(title, LONGEST)));
            let title = title.unwrap_or_default();
            let what = match &peer.address {
                Some(address) if is_lookup(peer) => {
                    format!("an answer from {address} (a name lookup)")
                }
                _ => String::from("it"),
            };
            let via = match (&peer.program, peer.pid) {
                (Some(program), Some(its)) if its != *pid => format!(" through {program} {its}"),
                _ => String::new(),
            };
            return format!(
                "held up by process {program} {pid}{title}, outside the pipeline: {} of the time; {name} waited \
                 for {what}{via}{}",
                does(parts),
                trips.map(round_trips).unwrap_or_default()
            );
        }
        Limit::OwnBuffer => (name.to_owned(), format!("waiting for {far}")),
        Limit::Loss(_) | Limit::Network(_) => {
            (format!("the network to {far}"), format!("{name} waited for it"))
        }
        Limit::FarWindow(_) | Limit::FarEnd => {
            (format!("the far end, {far}"), format!("{name} waited for it"))
        }
        Limit::Either => (format!("{far} or the network to it"), format!("{name} waited")),
    };
    let of_the_time = if *limit == Limit::OwnBuffer { "" } else { " of the time" };
    let share = percent(share);
    format!("held up by {who}: {waited} {share}{of_the_time}: {}", finding(peer, limit))
}

/// Whether a socket is one to a server of names.
fn is_lookup(peer: &Peer) -> bool {
    peer.address.as_ref().is_some_and(|address| address.ends_with(":53"))
}

/// What a process did that somebody waits for.
fn does(parts: &[(BusyPart, f64)]) -> String {
    part_list_of(parts, "not answering")
}

/// `60 us`, `3ms`.
pub(super) fn each_time(ns: u64) -> String {
    if ns < 1_000_000 { format!("{} us", ns / 1000) } else { short_time(ns) }
}

/// `, in about 15 k waits of 60 us: ...`. A round trip may take several waits.
fn round_trips((times, each_ns): (u64, u64)) -> String {
    let each = each_time(each_ns);
    format!(
        ", in about {} waits of {each}: more in each question, or questions sent ahead of the answers, would \
         take fewer round trips",
        rough_count(times)
    )
}

/// The round trips to the peer among the parts of a time, shares of `wall_ns`, as a clause; nothing where they
/// are not known.
pub(super) fn round_trips_in(parts: &[(BusyPart, f64)], wall_ns: u64) -> String {
    let of = |(part, share): &(BusyPart, f64)| match part {
        BusyPart::Socket(Some(peer)) => trips_to(peer, (share * wall_ns as f64) as u64),
        _ => None,
    };
    parts.iter().find_map(of).map(round_trips).unwrap_or_default()
}

/// Returns what was found out about the peer of a socket, in a clause.
pub fn finding(peer: &Peer, limit: &Limit) -> String {
    let tcp = peer.tcp.unwrap_or_default();
    let trip = short_time(tcp.last.rtt_ns.max(tcp.last.min_rtt_ns));
    match limit {
        Limit::Process { program, pid, parts, .. } => {
            format!("process {program} {pid}: {} of the time", does(parts))
        }
        Limit::Loss(Some(share)) => {
            format!("{} of the segments were sent again (round trip {trip})", percent(*share))
        }
        Limit::Loss(None) => format!("data came out of order, lost on the way (round trip {trip})"),
        Limit::Network(Delay::UnderWay) => {
            format!("what was written was still under way (round trip {trip})")
        }
        Limit::Network(Delay::Unanswered) => {
            format!("what was sent had not been answered yet (round trip {trip})")
        }
        Limit::Network(Delay::Queued) => {
            let queue = short_time(tcp.last.receiver_rtt_ns);
            format!("data stood in a queue on the way (round trip {trip}, with the queue {queue})")
        }
        Limit::FarWindow(share) => {
            format!("its window was full in {} of the writes' time", percent(*share))
        }
        Limit::FarEnd => String::from("it sent nothing, and nothing was missing"),
        Limit::OwnBuffer => {
            format!("its own socket buffer is too small for a round trip of {trip}")
        }
        Limit::Either => String::from("data came in, without loss"),
    }
}

/// Names a file or device after "waiting for": `the disk: /data/x (ext4 on vda1)`, `/dev/nvidia0
/// (nvidia)`, `the terminal /dev/pts/3`, `the disk (in folio_wait_bit_common)`.
pub fn file_name(wait: &FileWait) -> String {
    let path = wait.path.as_deref();
    let terminal = |path: &str| {
        path == "/dev/tty" || ["/dev/pts/", "/dev/ttyS"].iter().any(|start| path.starts_with(start))
    };
    let what = match (wait.kind, path) {
        (FileWaitKind::Disk, path) => on_disk(wait, path),
        (FileWaitKind::Device, Some(path)) if terminal(path) => {
            return format!("the terminal {path}");
        }
        (_, Some(path)) => path.to_owned(),
        (FileWaitKind::File, None) => String::from("another file"),
        (FileWaitKind::Device, None) => String::from("a terminal or device"),
    };
    match (&wait.on, &wait.kernel) {
        (Some(on), _) => format!("{what} ({on})"),
        (None, Some(kernel)) if path.is_none() => format!("{what} (in {kernel})"),
        _ => what,
    }
}

/// Names a wait for a disk: `the disk to flush /data/x`, `the disk to write /data/x (past the memory of the
/// kernel: O_DIRECT)`.
fn on_disk(wait: &FileWait, path: Option<&str>) -> String {
    let it = if wait.is_of_kernel() { "the kernel" } else { "the disk" };
    let what = match (wait.access, path) {
        (FileAccess::Other, Some(path)) => return format!("{it}: {path}"),
        (FileAccess::Other, None) => return String::from(it),
        (FileAccess::Read, path) => format!("{it} to read {}", path.unwrap_or("a file")),
        (FileAccess::Write, path) => format!("{it} to write {}", path.unwrap_or("a file")),
        (FileAccess::Flush, path) => format!("{it} to flush {}", path.unwrap_or("files")),
    };
    match (wait.direct, wait.throttled) {
        (true, _) => format!("{what} directly (O_DIRECT)"),
        (_, true) => format!("{what}, too much of which is not on the disk yet"),
        _ => what,
    }
}

/// Names the other end of a socket: `127.0.0.1:42022 (sshd 123)`, `the unix socket of postgres
/// 8123`, `a connection to 0.0.0.0:80`, `a socket`.
pub fn peer_name(peer: &Peer) -> String {
    match (&peer.address, &peer.program, peer.pid) {
        (_, Some(program), Some(pid)) if peer.kind == PeerKind::Unix => {
            format!("the unix socket of {program} {pid}")
        }
        (Some(address), ..) if peer.kind == PeerKind::Listening => {
            format!("a connection to {address}")
        }
        (Some(address), ..) if peer.kind == PeerKind::Unknown => {
            format!("an answer to its request to be connected to {address}")
        }
        (Some(address), Some(program), Some(pid)) => format!("{address} ({program} {pid})"),
        (Some(address), ..) if peer.kind == PeerKind::Unix => format!("the unix socket {address}"),
        (Some(address), ..) => address.clone(),
        _ => String::from("a socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_named_as_far_as_it_is_known() {
        let address = Some(String::from("127.0.0.1:42022"));
        let mut far = Peer { kind: PeerKind::Local, address, ..Peer::default() };
        assert_eq!(peer_name(&far), "127.0.0.1:42022");
        (far.program, far.pid) = (Some(String::from("sshd")), Some(123));
        assert_eq!(peer_name(&far), "127.0.0.1:42022 (sshd 123)");
        far.kind = PeerKind::Unix;
        assert_eq!(peer_name(&far), "the unix socket of sshd 123");
        (far.program, far.address) = (None, Some(String::from("/run/x")));
        assert_eq!(peer_name(&far), "the unix socket /run/x");
        far.kind = PeerKind::Listening;
        assert_eq!(peer_name(&far), "a connection to /run/x");
        assert_eq!(peer_name(&Peer::default()), "a socket");
        far.kind = PeerKind::Unknown;
        assert_eq!(peer_name(&far), "an answer to its request to be connected to /run/x");
    }

    /// "process python3: asleep; curl waited for it", of a server of names.
    #[test]
    fn a_wait_for_a_server_of_names_says_that_it_is_for_a_name() {
        let address = Some(String::from("127.0.0.1:53"));
        let peer = Peer { kind: PeerKind::Local, address, ..Peer::default() };
        let parts = vec![(BusyPart::Sleep, 0.9)];
        let (program, pid, title, trips) = (String::from("dnsd"), 9, None, None);
        let said =
            held_up(&peer, &Limit::Process { program, pid, title, parts, trips }, "curl", 0.9);
        assert!(
            said.ends_with("curl waited for an answer from 127.0.0.1:53 (a name lookup)"),
            "{said}"
        );
        let far = held_up(&peer, &Limit::FarEnd, "curl", 0.9);
        assert!(far.starts_with("held up by the far end, 127.0.0.1:53 (a name lookup): "), "{far}");
    }

    #[test]
    fn a_file_is_named_as_far_as_it_is_known() {
        let known = |kind, path: &str, on: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let kernel = some("folio_wait_bit_common");
            let (path, on) = (some(path), some(on));
            file_name(&FileWait { kind, path, on, kernel, ..FileWait::default() })
        };
        assert_eq!(
            known(FileWaitKind::Disk, "/data/x", "ext4 on vda1"),
            "the disk: /data/x (ext4 on vda1)"
        );
        assert_eq!(known(FileWaitKind::Disk, "/data/x", ""), "the disk: /data/x");
        assert_eq!(known(FileWaitKind::Disk, "", ""), "the disk (in folio_wait_bit_common)");
        assert_eq!(known(FileWaitKind::File, "/tmp/fifo", ""), "/tmp/fifo");
        assert_eq!(known(FileWaitKind::Device, "/dev/nvidia0", "nvidia"), "/dev/nvidia0 (nvidia)");
        assert_eq!(known(FileWaitKind::Device, "/dev/pts/3", "pts"), "the terminal /dev/pts/3");
        assert_eq!(file_name(&FileWait::default()), "the disk");
        let access = FileAccess::Flush;
        assert_eq!(
            file_name(&FileWait { access, ..FileWait::default() }),
            "the disk to flush files"
        );
        let path = Some(String::from("/data/x"));
        let mut wait = FileWait { path, access: FileAccess::Write, ..FileWait::default() };
        wait.direct = true;
        assert_eq!(file_name(&wait), "the disk to write /data/x directly (O_DIRECT)");
        let place = "/sys/fs/cgroup/job/cgroup.procs";
        let path = Some(String::from(place));
        let mut group = FileWait { path, access: FileAccess::Write, ..FileWait::default() };
        assert_eq!(file_name(&group), format!("the kernel to write {place}"));
        group.on = Some(String::from("cgroup2"));
        assert_eq!(file_name(&group), format!("the kernel to write {place} (cgroup2)"));
        group.on = Some(String::from("ext4 on vda1"));
        assert!(file_name(&group).starts_with("the disk to write"), "a root of its own");
    }
}
