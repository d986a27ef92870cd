//! What the owner of a shared region hears of a member.

use rustix::event::PollFlags;

/// What the owner hears of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberNews {
    Nothing,
    Faults,
    End,
}

impl MemberNews {
    /// By what poll says of the member's faults and of its socket. The kernel reports an error of
    /// faults that a member has made blocking again, as it can: to read them could last for ever.
    pub fn by_poll(faults: PollFlags, socket: PollFlags) -> MemberNews {
        // A member says nothing more by its socket: whatever comes is its end.
        if !socket.is_empty() || !faults.difference(PollFlags::IN).is_empty() {
            return MemberNews::End;
        }
        if faults.is_empty() { MemberNews::Nothing } else { MemberNews::Faults }
    }
}
