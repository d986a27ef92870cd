//! What cannot be seen from outside.

use super::*;

#[test]
fn an_id_is_a_number_and_back() {
    let id = ChannelId { index: 7, generation: 9 };
    assert_eq!(ChannelId::from_u64(id.to_u64()), id);
    assert_eq!(id.to_string(), "7.9");
}

/// The number of a channel names no other, ever: an entry whose numbers are used up is left.
#[test]
fn an_entry_whose_numbers_are_used_up_is_not_used_again() {
    use super::core::{Core, State};
    use weir_ring::lane::Side;
    let mut core = Core::new(Side::Owner);
    let first = core.enter(link::NONE, link::NONE, State::Joined);
    core.leave(first);
    assert_eq!(core.enter(link::NONE, link::NONE, State::Joined), first, "it is used again");
    core.channels[first as usize].generation = u32::MAX;
    let last = core.id(first);
    core.leave(first);
    let next = core.enter(link::NONE, link::NONE, State::Joined);
    assert!(next != first && core.find("find", last).is_err(), "{last} names no channel");
}
