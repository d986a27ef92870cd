//! What cannot be seen from outside.

use super::*;

#[test]
fn an_id_is_a_number_and_back() {
    let id = ChannelId { index: 7, generation: 9 };
    assert_eq!(ChannelId::from_u64(id.to_u64()), id);
    assert_eq!(id.to_string(), "7.9");
}
