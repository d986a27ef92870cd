//! Names of the subroutines of the switch and its daemons in a profile.

use weir_profile::Subroutine;

/// Reads of the device, including those that find nothing.
pub static TUN_READ: Subroutine = Subroutine::new("tun.read");
/// Writes to the device.
pub static TUN_WRITE: Subroutine = Subroutine::new("tun.write");
/// Checking the IP header, and whether the packet is for this host: a call for each packet read.
pub static VERIFY: Subroutine = Subroutine::new("ip.verify");
/// Reassembling fragments.
pub static REASSEMBLE: Subroutine = Subroutine::new("ip.reassemble");
/// Finding the station, copying the packet into its ring, and waking it where it sleeps.
pub static DELIVER: Subroutine = Subroutine::new("ring.put");
/// Taking what stations sent, except the parts named below.
pub static TAKE: Subroutine = Subroutine::new("ring.take");
/// Yielding to other threads on the switch's CPU.
pub static GIVE_WAY: Subroutine = Subroutine::new("sched_yield");
pub static SLEEP: Subroutine = Subroutine::new("switch.sleep");
/// A station's waits for what the switch sends, up to the first message.
pub static RING_WAIT: Subroutine = Subroutine::new("ring.wait");
/// Completing the IP header.
pub static COMPLETE: Subroutine = Subroutine::new("ip.complete");
/// Answering ICMP and GGP.
pub static ANSWER: Subroutine = Subroutine::new("icmp.answer");
/// Writing what a station sends into its ring, and waking the switch where it sleeps.
pub static SEND: Subroutine = Subroutine::new("ring.send");
/// Taking and making packets of TFTP, except reads and writes of files.
pub static TFTP: Subroutine = Subroutine::new("tftp.transfer");
/// Reading a file that is sent.
pub static FILE_READ: Subroutine = Subroutine::new("file.read");
/// Writing a file that is received.
pub static FILE_WRITE: Subroutine = Subroutine::new("file.write");
/// Taking and making segments of TCP.
pub static TCP: Subroutine = Subroutine::new("tcp.poll");
