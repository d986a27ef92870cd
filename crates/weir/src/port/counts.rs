//! Where the messages of all writers are counted.

use weir_policy::ready::Usual;
use weir_ring::account::add;
use weir_ring::board::Board;

/// Where messages that were received are counted: for the choice of turns, and for all to see.
pub struct Counts<'a> {
    pub usual: &'a mut Usual,
    pub board: &'a Board,
}

impl Counts<'_> {
    #[inline]
    pub fn count(&mut self, messages: u64, bytes: u64) {
        self.usual.served(messages, bytes);
        let account = &self.board.account;
        add(&account.records, messages);
        add(&account.bytes, bytes);
    }
}
