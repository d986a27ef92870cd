//! How far a process came in the regular file that it reads.
//!
//! The position tells of bytes that the process moves by calls that nobody counts.

use weir_sys::Pid;
use weir_sys::proc::{Descriptor, FdInfo, regular};

/// Descriptors among which the file is sought: standard input, and the first that a program opens.
pub(super) const SOUGHT: [i32; 6] = [0, 3, 4, 5, 6, 7];
/// Interval, in looks, at which the file is sought.
const SEEK_LOOKS: u64 = 8;

/// The positions in the files that a process read one after the other.
#[derive(Debug, Default)]
pub struct Positions {
    now: Option<(i32, Descriptor)>,
    at_bytes: u64,
    before_bytes: u64,
}

impl Positions {
    /// Notes the present position of process `pid`, at its look number `looks`.
    pub fn sample(&mut self, pid: Pid, looks: u64) {
        // The position in a directory is a hash.
        let mut found = self.now.and_then(|(fd, file)| {
            regular(pid, fd).filter(|(other, _)| *other == file).map(|(_, bytes)| (fd, file, bytes))
        });
        if found.is_none() {
            self.before_bytes = self.bytes();
            (self.now, self.at_bytes) = (None, 0);
            if !looks.is_power_of_two() && !looks.is_multiple_of(SEEK_LOOKS) {
                return;
            }
            found = SOUGHT.into_iter().find_map(|fd| {
                let (file, bytes) = regular(pid, fd)?;
                FdInfo::of(pid, fd).filter(FdInfo::is_only_read).map(|_| (fd, file, bytes))
            });
        }
        let Some((fd, file, bytes)) = found else { return };
        self.now = Some((fd, file));
        // It may be open no more, and its number that of another file.
        let position = FdInfo::of(pid, fd).map_or(0, |info| info.position.min(bytes));
        self.at_bytes = self.at_bytes.max(position);
    }

    /// Returns the sum of the positions.
    pub fn bytes(&self) -> u64 {
        self.before_bytes + self.at_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// Python lists directories while it starts, and seemed to have read more than it had counted.
    #[test]
    fn the_position_in_a_directory_is_none_of_bytes() {
        let directory = tempfile::tempdir().expect("a directory");
        (0..500).for_each(|n| {
            std::fs::write(directory.path().join(n.to_string()), "").expect("written");
        });
        let listed = std::fs::File::open(directory.path()).expect("opened");
        rustix::fs::seek(&listed, rustix::fs::SeekFrom::Start(1 << 40)).expect("a position");
        let mut command = Command::new("sleep");
        let mut child = command.arg("60").stdin(listed.try_clone().expect("a copy")).spawn();
        let child = child.as_mut().expect("sleep");
        let pid = child.id() as Pid;
        assert!(FdInfo::of(pid, 0).is_some_and(|info| info.position > 0));
        let mut positions = Positions::default();
        (1..5).for_each(|looks| positions.sample(pid, looks));
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert_eq!(positions.bytes(), 0);
    }

    #[test]
    fn files_read_one_after_the_other_add_up() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["a", "b"] {
            std::fs::write(directory.path().join(name), vec![7; 5000]).expect("written");
        }
        let script =
            "exec <a; head -c 3000 >/dev/null; echo; read x; exec <b; cat; echo; read -u 5 x";
        let mut shell = Command::new("bash")
            .args(["-c", &format!("exec 5<&0; {}", script.replace("read x;", "read -u 5 x;"))])
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let mut lines = BufReader::new(shell.stdout.take().expect("piped"));
        let (pid, mut positions, mut line) = (shell.id() as Pid, Positions::default(), Vec::new());
        lines.read_until(b'\n', &mut line).expect("a line");
        positions.sample(pid, 1);
        assert_eq!(positions.bytes(), 3000);
        let mut input = shell.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, b"\n").expect("written");
        lines.read_until(b'\n', &mut line).expect("a line");
        positions.sample(pid, 2);
        assert_eq!(positions.bytes(), 8000);
        drop(input);
        shell.wait().expect("waited");
    }
}
