//! The subroutines of the switch and its daemons, as a profile names them.

use weir_profile::Subroutine;

/// Reads of the device, those that find nothing too.
pub static TUN_READ: Subroutine = Subroutine::new("tun.read");
/// Writes to the device.
pub static TUN_WRITE: Subroutine = Subroutine::new("tun.write");
/// Checking the header of IP, and whether the packet is for us: a call for each that was read.
pub static VERIFY: Subroutine = Subroutine::new("ip.verify");
/// Putting fragments together.
pub static REASSEMBLE: Subroutine = Subroutine::new("ip.reassemble");
/// Finding the station, and copying the packet into its ring. Waking it, where it sleeps, is in it.
pub static DELIVER: Subroutine = Subroutine::new("ring.put");
/// Taking what stations sent, beside what is named below.
pub static TAKE: Subroutine = Subroutine::new("ring.take");
/// Giving way to others on the CPU of the switch.
pub static GIVE_WAY: Subroutine = Subroutine::new("sched_yield");
/// Sleeps of the switch.
pub static SLEEP: Subroutine = Subroutine::new("switch.sleep");
/// A station's waits for what the switch sends.
pub static RING_WAIT: Subroutine = Subroutine::new("ring.wait");
/// Completing the header of IP.
pub static COMPLETE: Subroutine = Subroutine::new("ip.complete");
/// Answering ICMP and GGP.
pub static ANSWER: Subroutine = Subroutine::new("icmp.answer");
/// Writing what a station sends into its ring. Waking the switch, where it sleeps, is in it.
pub static SEND: Subroutine = Subroutine::new("ring.send");
