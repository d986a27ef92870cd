//! Owners whose pids lie in another namespace. They need root, and are skipped where namespaces
//! cannot be made.

use crate::common;
use crate::common::{hear, kill, place, say, start_by};
use std::os::unix::fs::MetadataExt;
use weir_mpx::{Mpx, MpxOptions};

const NAMESPACES: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child"],
    &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

#[test]
fn in_a_role() {
    let Some(name) = common::role() else { return };
    // Holds an mpx until the test ends.
    let _mpx = Mpx::create(name, &MpxOptions::new()).expect("an mpx");
    let input = std::io::stdin();
    say(&input, b"up");
    hear(&input);
}

/// It was shown by the number that it has inside, which is that of another process here.
#[test]
fn who_is_inside_is_shown_by_the_number_it_has_outside() {
    for by in NAMESPACES {
        let (_directory, name) = place();
        let Some((mut child, socket)) = start_by(&name.display().to_string(), by) else { return };
        assert_eq!(hear(&socket), b"up");
        let inode = std::fs::metadata(&name).expect("there").ino();
        let mpxes = weir::stat::mpxes();
        let mpx = mpxes.iter().find(|mpx| mpx.socket.1 == inode).expect("its mpx");
        let (holder, _) = mpx.holders[0];
        assert_eq!(mpx.account.pid, holder as u32);
        assert!(std::path::Path::new(&format!("/proc/{holder}")).exists(), "{holder}");
        kill(&mut child);
    }
}
