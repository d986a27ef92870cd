//! Tests of what cannot be seen from outside.

use super::*;

#[test]
fn an_id_is_a_number_and_back() {
    let id = ChannelId { index: 7, generation: 9 };
    assert_eq!(ChannelId::from_u64(id.to_u64()), id);
    assert_eq!(id.to_string(), "7.9");
}

/// The number of a channel never names another: an entry whose numbers are used up is not used again.
#[test]
fn an_entry_whose_numbers_are_used_up_is_not_used_again() {
    use super::home::ParticipantHome;
    use super::link_end::NONE;
    use super::table::{ChannelState, ChannelTable};
    let (_file, page) = crate::memory::SharedPage::create().expect("made");
    let mut table = ChannelTable::new(ParticipantHome::Owner(std::sync::Arc::new(page)));
    let first = table.enter(NONE, NONE, ChannelState::Joined);
    table.leave(first);
    assert_eq!(table.enter(NONE, NONE, ChannelState::Joined), first, "it is used again");
    table.channels[first as usize].generation = u32::MAX;
    let last = table.id(first);
    table.leave(first);
    let next = table.enter(NONE, NONE, ChannelState::Joined);
    assert!(next != first && table.find("find", last).is_err(), "{last} names no channel");
}
