//! Sentences on what a stage waited for outside the run.

use super::part_word;
use weir_command::units::words::{percent, short_time};
use weir_doctor::facts::{FileWait, FileWaitKind, Peer, PeerKind, Run, TcpWaits};
use weir_doctor::outside::{Limit, limit};
use weir_doctor::verdict::BusyPart;

/// Who held up a stage of this name that waited for a socket most of the time, and why; `None` where
/// only the name of the other end is known. `share`: of the run, for which the stage waited.
pub fn held_up(run: &Run, position: usize, name: &str, share: f64) -> Option<String> {
    let peer = run.stages[position].peer.as_ref()?;
    let (why, far) = (limit(peer)?, peer_name(peer));
    Some(match why {
        Limit::Process(process, _) => {
            let via = match (&peer.program, peer.pid) {
                (Some(program), Some(pid)) if pid != process.pid => {
                    format!(" through {program} {pid}")
                }
                _ => String::new(),
            };
            let (program, pid) = (&process.program, process.pid);
            let does = does(run, peer, &why).unwrap_or_default();
            format!(
                "held up by process {program} {pid}, outside the pipeline: {does} of the time; \
                 {name} waited for it{via}"
            )
        }
        Limit::OwnBuffer => format!(
            "held up by {name}: waiting for {far} {}: {}",
            percent(share),
            connection(peer, &why)
        ),
        Limit::Loss(_) | Limit::Network => format!(
            "held up by the network to {far}: {name} waited for it {} of the time: {}",
            percent(share),
            connection(peer, &why)
        ),
        Limit::FarWindow | Limit::FarEnd => format!(
            "held up by the far end, {far}: {name} waited for it {} of the time: {}",
            percent(share),
            connection(peer, &why)
        ),
        Limit::Either => format!(
            "held up by {far} or the network to it: {name} waited {} of the time: {}",
            percent(share),
            connection(peer, &why)
        ),
    })
}

/// Returns what was found out about the peer of a socket, in a clause. `None`: nothing was.
pub fn finding(run: &Run, peer: &Peer) -> Option<String> {
    let why = limit(peer)?;
    match &why {
        Limit::Process(process, _) => {
            let does = does(run, peer, &why)?;
            Some(format!("process {} {}: {does} of the time", process.program, process.pid))
        }
        _ => Some(connection(peer, &why)),
    }
}

/// Returns what a process did while the stage waited: `on CPU 93 %, waiting for the disk 5 %`.
fn does(run: &Run, peer: &Peer, why: &Limit) -> Option<String> {
    const WORTH: f64 = 0.05;
    let Limit::Process(process, parts) = why else { return None };
    let said = parts.iter().enumerate().filter_map(|(at, (part, ns))| {
        // No process is shown with more time than the stage waited.
        let share = run.share((*ns).min(peer.waited_ns));
        let what = match (part, &process.file, &process.peer) {
            (BusyPart::Disk | BusyPart::File | BusyPart::Device, Some(file), _) => {
                format!("waiting for {}", file_name(file))
            }
            (BusyPart::Socket, _, Some(next)) => format!("waiting for {}", peer_name(next)),
            _ => String::from(part_word(*part)),
        };
        (at == 0 || share >= WORTH).then(|| format!("{what} {}", percent(share)))
    });
    Some(said.collect::<Vec<_>>().join(", "))
}

/// Returns what a connection showed.
fn connection(peer: &Peer, why: &Limit) -> String {
    let tcp = peer.tcp.unwrap_or_default();
    let trip = short_time(tcp.last.rtt_ns.max(tcp.last.min_rtt_ns));
    match why {
        Limit::Loss(Some(share)) => {
            format!("{} of the segments were sent again (round trip {trip})", percent(*share))
        }
        Limit::Loss(None) => format!("data came out of order, lost on the way (round trip {trip})"),
        Limit::Network if tcp.write_ns > tcp.read_ns => {
            format!("what was written was still under way (round trip {trip})")
        }
        Limit::Network if tcp.unanswered_ns >= tcp.queued_ns => {
            format!("what was sent had not been answered yet (round trip {trip})")
        }
        Limit::Network => {
            let queue = short_time(tcp.last.receiver_rtt_ns);
            format!("data stood in a queue on the way (round trip {trip}, with the queue {queue})")
        }
        Limit::FarWindow => {
            format!("its window was full in {} of the writes' time", percent(window_share(&tcp)))
        }
        Limit::FarEnd => String::from("it sent nothing, and nothing was missing"),
        Limit::OwnBuffer => {
            format!("its own socket buffer is too small for a round trip of {trip}")
        }
        Limit::Either => String::from("data came in, without loss"),
        Limit::Process(..) => String::new(),
    }
}

fn window_share(tcp: &TcpWaits) -> f64 {
    let busy = tcp.last.busy_ns.saturating_sub(tcp.first.busy_ns).max(1);
    tcp.last.far_window_ns.saturating_sub(tcp.first.far_window_ns) as f64 / busy as f64
}

/// Names a file or device after "waiting for": `the disk: /data/x (ext4 on vda1)`, `/dev/nvidia0
/// (nvidia)`, `the terminal /dev/pts/3`, `the disk (in folio_wait_bit_common)`.
pub fn file_name(wait: &FileWait) -> String {
    let path = wait.path.as_deref();
    let terminal = |path: &str| {
        path == "/dev/tty" || ["/dev/pts/", "/dev/ttyS"].iter().any(|start| path.starts_with(start))
    };
    let what = match (wait.kind, path) {
        (FileWaitKind::Disk, Some(path)) => format!("the disk: {path}"),
        (FileWaitKind::Disk, None) => String::from("the disk"),
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
    }

    #[test]
    fn a_file_is_named_as_far_as_it_is_known() {
        let known = |kind, path: &str, on: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let kernel = some("folio_wait_bit_common");
            file_name(&FileWait { kind, path: some(path), on: some(on), kernel, waited_ns: 0 })
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
    }
}
