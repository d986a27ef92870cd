//! Regions of processes whose pids are in another namespace. They need root, and are skipped where
//! namespaces cannot be made.

use crate::common::{self, hear, kill, say, start_by};
use weir_region::{Region, RegionOptions};

const LENGTHS: [u64; 2] = [(1 << 20) + 4096, (1 << 20) + 8192];
const NAMESPACES: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child"],
    &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    // Holds a region of this length until the test ends.
    let bytes = role.parse().expect("a number");
    let _region = Region::new(bytes, &RegionOptions::new()).expect("a region");
    let input = std::io::stdin();
    say(&input, b"up");
    hear(&input);
}

/// It was shown by the number that it has inside, which is that of another process here.
#[test]
fn who_is_inside_is_shown_by_the_number_it_has_outside() {
    for (by, bytes) in NAMESPACES.into_iter().zip(LENGTHS) {
        let Some((mut child, socket)) = start_by(&bytes.to_string(), by) else { return };
        assert_eq!(hear(&socket), b"up");
        let regions = weir::stat::regions();
        let region = regions.iter().find(|region| region.region_bytes == bytes);
        let region = region.expect("its region");
        let (holder, _) = region.holders[0];
        assert_eq!(region.pid, holder as u32);
        assert!(std::path::Path::new(&format!("/proc/{holder}")).exists(), "{holder}");
        kill(&mut child);
    }
}
