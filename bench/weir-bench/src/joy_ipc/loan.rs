//! Large records by loan: their place is reserved, two bytes are written and read, and nothing is
//! copied. So a round trip does not depend on the size.

use crate::tools::own::{ChannelSide, PipeSettings, Records};
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;

const BYTES: [u64; 4] = [64, 4 << 10, 64 << 10, 1 << 20];

pub fn loans() -> Group {
    let cases = BYTES.map(|bytes| {
        let params = Params { chunk_bytes: Some(bytes), ..moving("weir-record-loan", "two-way") };
        let name = format!("two-way weir-record by loan {}", size(bytes));
        let make = move |site: &Site| trips(site, bytes as usize);
        Case {
            standard: false,
            normalise: Normalise::OnOneCpu,
            ..case(name, params, Measure::TIME, make)
        }
    });
    Group { standard: vec![Placement::OtherCpu], ..group("loan", Sides::Two, cases.into()) }
}

fn trips(site: &Site, bytes: usize) -> MadeWork {
    let (there, back) =
        (Records::new(PipeSettings::DEFAULT)?, Records::new(PipeSettings::DEFAULT)?);
    let mut peer = PeerProcess::start(site, |control| {
        there.only(ChannelSide::Receives);
        back.only(ChannelSide::Sends);
        let mut mark: u8 = 0;
        control.serve(|| {
            there.receive_loan(bytes, mark)?;
            back.send_loan(bytes, mark)?;
            mark = mark.wrapping_add(1);
            Ok(())
        })
    })?;
    there.only(ChannelSide::Sends);
    back.only(ChannelSide::Receives);
    let mut mark: u8 = 0;
    work(move |count| {
        let elapsed = peer.trips(count, || {
            there.send_loan(bytes, mark)?;
            back.receive_loan(bytes, mark)?;
            mark = mark.wrapping_add(1);
            Ok(())
        })?;
        Ok(Batch::time(elapsed, count))
    })
}
