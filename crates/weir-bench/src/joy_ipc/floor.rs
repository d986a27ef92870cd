//! The lower bound for round trips of records: the same loads and stores without a library.

use crate::tools::bare::Bare;
use crate::tools::pattern::Pattern;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;

/// Makes the cases by a bare ring; the length is known at compile time.
pub fn cases() -> Vec<Case> {
    vec![floor::<4>(), floor::<48>(), floor::<64>()]
}

fn floor<const BYTES: usize>() -> Case {
    let params = Params { chunk_bytes: Some(BYTES as u64), ..moving("bare-ring", "two-way") };
    let name = format!("two-way bare-ring {BYTES} B");
    Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        ..case(name, params, Measure::RATE, trips::<BYTES>)
    }
}

fn trips<const BYTES: usize>(site: &Site) -> MadeWork {
    two_cpus(site)?;
    let (there, back) = (Bare::<BYTES>::new()?, Bare::<BYTES>::new()?);
    let mut peer = PeerProcess::start(site, |control| {
        let (mut expected, mut sent) = (Pattern::new(BYTES), Pattern::new(BYTES));
        control.serve(|| {
            expected.check(&there.receive()?)?;
            back.send(known(sent.next_chunk())?)
        })
    })?;
    let (mut sent, mut expected) = (Pattern::new(BYTES), Pattern::new(BYTES));
    work(move |count| {
        peer.more(count);
        let elapsed = timed(count, || {
            there.send(known(sent.next_chunk())?)?;
            expected.check(&back.receive()?)
        })?;
        peer.wait()?;
        Ok(Batch::rate(elapsed, 2 * count))
    })
}

fn known<const BYTES: usize>(chunk: &[u8]) -> Result<&[u8; BYTES], CaseError> {
    chunk.try_into().map_err(|_| CaseError::failed("a chunk has the wrong length"))
}
