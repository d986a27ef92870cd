//! The bounds for TFTP over the kernel's sockets, as ratios of servers in the same rounds.

use super::{BLOCKS, CLIENTS, OVERLONG, Proposal, ServerKind, WINDOW_CLIENTS, WINDOWS, name};
use crate::allen_echo::goals::Goal;

/// Others are compared with weir: without windows at most as fast, with them at most two thirds.
const MOST_OF_OTHERS: f64 = 1.0;
const MOST_OF_OTHERS_WITH_WINDOWS: f64 = 1.0 / 1.5;

/// Returns all bounds: the most that another server may do, as a share of weir's.
pub fn goals() -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut add = |client, proposal, servers: &[ServerKind], most| {
        for server in servers {
            let (a, b) =
                (name(client, proposal, ServerKind::Weir), name(client, proposal, *server));
            goals.push(Goal { a, b, bound: most, is_most: true });
        }
    };
    for client in CLIENTS {
        for block_bytes in BLOCKS {
            let others = [ServerKind::TftpdHpa, ServerKind::Atftpd];
            add(client, Proposal { block_bytes, window: 1 }, &others, MOST_OF_OTHERS);
        }
    }
    for client in WINDOW_CLIENTS {
        for (block_bytes, window) in WINDOWS.into_iter().chain(OVERLONG) {
            let others = [ServerKind::Atftpd, ServerKind::RsTftpd];
            add(client, Proposal { block_bytes, window }, &others, MOST_OF_OTHERS_WITH_WINDOWS);
        }
    }
    goals
}
