//! Round trips of records of a length that the compiler knows: weir's, and those of a bare ring,
//! which are the same loads and stores without a library. One loop drives both, and it calls them as
//! a program would.

use crate::tools::bare::{Bare, Rest};
use crate::tools::own::trouble;
use crate::tools::pattern::Pattern;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use weir::{Handle, Options, RecordReader, RecordWriter};

/// The two sides of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Asks,
    Answers,
}

/// A pipe for records in each direction.
///
/// Sending and receiving become a part of the loop, as they do in a program that is built for speed;
/// this crate is built for size.
trait Exchange<const BYTES: usize> {
    /// Opens the ends of one side, in the process that uses them, if they are not open yet.
    fn open(&mut self, side: Side) -> Result<(), CaseError>;

    fn send(&mut self, record: &[u8; BYTES]) -> Result<(), CaseError>;

    fn receive(&mut self, record: &mut [u8; BYTES]) -> Result<(), CaseError>;
}

/// Makes the cases of the lower bound.
pub fn bare_cases() -> Vec<Case> {
    let rests = [
        ("bare-ring", Rest::Fence),
        ("bare-ring-pause", Rest::Pause),
        ("bare-ring-loads", Rest::Loads),
        ("bare-ring-stores", Rest::Stores),
    ];
    rests.into_iter().flat_map(|(name, rest)| bare_sizes(name, rest)).collect()
}

fn bare_sizes(mechanism: &str, rest: Rest) -> [Case; 3] {
    [
        bare_case::<4>(mechanism, rest),
        bare_case::<48>(mechanism, rest),
        bare_case::<64>(mechanism, rest),
    ]
}

fn bare_case<const BYTES: usize>(mechanism: &str, rest: Rest) -> Case {
    let params = Params { chunk_bytes: Some(BYTES as u64), ..moving(mechanism, "two-way") };
    let name = format!("two-way {mechanism} {BYTES} B");
    Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        ..case(name, params, Measure::RATE, move |site| bare::<BYTES>(site, rest))
    }
}

fn bare<const BYTES: usize>(site: &Site, rest: Rest) -> MadeWork {
    // On one CPU a reader that only looks would keep the writer from running.
    two_cpus(site)?;
    trips::<BYTES>(site, BareExchange { out: Bare::new(rest)?, back: Bare::new(rest)? })
}

/// Makes round trips through two record pipes.
pub fn weir<const BYTES: usize>(site: &Site) -> MadeWork {
    trips::<BYTES>(site, WeirExchange::new()?)
}

fn trips<const BYTES: usize>(
    site: &Site,
    mut exchange: impl Exchange<BYTES> + 'static,
) -> MadeWork {
    let (mut sent, mut expected) = (Pattern::new(BYTES), Pattern::new(BYTES));
    let mut peer = PeerProcess::start(site, |control| {
        exchange.open(Side::Answers)?;
        let mut record = [0; BYTES];
        control.serve(|| {
            // The next answer is made before the question comes, and the question is checked after
            // the answer is sent: only what passes records stands between the two.
            let answer = known(sent.next_chunk())?;
            exchange.receive(&mut record)?;
            exchange.send(answer)?;
            expected.check(&record)
        })
    })?;
    let (mut question, mut record) = (*known(sent.next_chunk())?, [0; BYTES]);
    work(move |count| {
        // Not before the first batch: an open end has a thread, and a process with threads cannot
        // fork the other sides of the cases that are made after this one.
        exchange.open(Side::Asks)?;
        let mut unchecked = false;
        let elapsed = peer.trips(count, || {
            exchange.send(&question)?;
            // While the answer is on its way, as on the other side.
            if unchecked {
                expected.check(&record)?;
            }
            question = *known(sent.next_chunk())?;
            exchange.receive(&mut record)?;
            unchecked = true;
            Ok(())
        })?;
        if unchecked {
            expected.check(&record)?;
        }
        Ok(Batch::rate(elapsed, 2 * count))
    })
}

fn known<const BYTES: usize>(chunk: &[u8]) -> Result<&[u8; BYTES], CaseError> {
    chunk.try_into().map_err(|_| CaseError::failed("a chunk has the wrong length"))
}

struct BareExchange<const BYTES: usize> {
    out: Bare<BYTES>,
    back: Bare<BYTES>,
}

impl<const BYTES: usize> Exchange<BYTES> for BareExchange<BYTES> {
    fn open(&mut self, side: Side) -> Result<(), CaseError> {
        if side == Side::Answers {
            std::mem::swap(&mut self.out, &mut self.back);
        }
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, record: &[u8; BYTES]) -> Result<(), CaseError> {
        self.out.send(record)
    }

    #[inline(always)]
    fn receive(&mut self, record: &mut [u8; BYTES]) -> Result<(), CaseError> {
        self.back.receive(record)
    }
}

struct WeirExchange {
    /// The writer's and the reader's handle of the way there and of the way back, until they are
    /// opened.
    handles: Option<[(Handle, Handle); 2]>,
    ends: Option<(RecordWriter, RecordReader)>,
}

impl WeirExchange {
    fn new() -> Result<WeirExchange, CaseError> {
        let pair = || Handle::record_pair(&Options::new()).map_err(trouble);
        Ok(WeirExchange { handles: Some([pair()?, pair()?]), ends: None })
    }

    #[inline(always)]
    fn ends(&mut self) -> Result<&mut (RecordWriter, RecordReader), CaseError> {
        self.ends.as_mut().ok_or_else(|| CaseError::failed("the pipes are not open"))
    }
}

impl<const BYTES: usize> Exchange<BYTES> for WeirExchange {
    fn open(&mut self, side: Side) -> Result<(), CaseError> {
        let Some([there, back]) = self.handles.take() else { return Ok(()) };
        let (out, back) = if side == Side::Asks { (there, back) } else { (back, there) };
        let writer = RecordWriter::open(out.0).map_err(trouble)?;
        // The other two handles are dropped, so that the other side's death is seen.
        self.ends = Some((writer, RecordReader::open(back.1).map_err(trouble)?));
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, record: &[u8; BYTES]) -> Result<(), CaseError> {
        self.ends()?.0.send(record).map_err(trouble)
    }

    #[inline(always)]
    fn receive(&mut self, record: &mut [u8; BYTES]) -> Result<(), CaseError> {
        match self.ends()?.1.receive(record).map_err(trouble)? {
            Some(bytes) if bytes == BYTES => Ok(()),
            Some(_) => Err(CaseError::failed("a record of another length arrived")),
            None => Err(CaseError::failed("the other side ended")),
        }
    }
}
