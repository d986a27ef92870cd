//! How fast a directory takes what is spilled, and gives it back: by engine, size of a transfer,
//! transfers in flight, and ground taken ahead.
//!
//! `cargo run --release -p weir-sys --example spill -- DIRECTORY [MIB] [ROUNDS]`

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::Instant;
use weir_sys::spill::{self, EngineChoice, MemoryPiece, SpillEngine, SpillFile, TransferDirection};

const FRAME_BYTES: usize = 64 << 10;
const IN_FLIGHT: [usize; 5] = [1, 2, 4, 8, 16];

/// Moves `total` bytes in transfers of `frames` frames; seconds.
fn pass(
    engine: &mut dyn SpillEngine,
    direction: TransferDirection,
    (total, frames, in_flight): (u64, usize, usize),
    memory: &mut [u8],
) -> io::Result<f64> {
    let bytes = (frames * FRAME_BYTES) as u64;
    let begin = Instant::now();
    let (mut next, mut done, mut failed) = (0, 0, None);
    let mut free: Vec<usize> = (0..in_flight).collect();
    while done < total / bytes {
        while next < total / bytes
            && let Some(at) = free.pop()
        {
            let part = &mut memory[at * bytes as usize..][..bytes as usize];
            let pieces: Vec<MemoryPiece> = part
                .chunks_mut(FRAME_BYTES)
                .map(|frame| MemoryPiece { start: frame.as_mut_ptr(), bytes: frame.len() })
                .collect();
            // SAFETY: `memory` is borrowed until all is completed, and this part of it is not given
            // to another transfer before this one is.
            let started = unsafe { engine.start(at as u64, direction, next * bytes, &pieces) };
            assert!(started, "fewer than there may be");
            next += 1;
        }
        engine.submit();
        let descriptor = engine.descriptor().ok_or(Errno::BADF)?;
        match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
        engine.completed(&mut |at, result| {
            failed = failed.or(result.err());
            free.push(at as usize);
            done += 1;
        });
    }
    failed.map_or(Ok(begin.elapsed().as_secs_f64()), |cause| Err(cause.into()))
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let directory = words.next().unwrap_or_else(|| ".".into());
    let mut number = |usual| words.next().and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (total, rounds) = (number(512_u64) << 20, number(2));
    let mut memory = vec![1_u8; 16 * (1 << 20) + FRAME_BYTES];
    let skip = memory.as_ptr().align_offset(FRAME_BYTES);
    let memory = &mut memory[skip..];
    println!(
        "round engine KiB ahead | MB/s to new ground, again, back, with {IN_FLIGHT:?} in flight"
    );
    for round in 0..rounds {
        for wanted in [EngineChoice::Uring, EngineChoice::Threads] {
            for frames in [4, 16] {
                for ahead in [0_u64, 16, 64] {
                    let mut rates = [const { String::new() }; 3];
                    let mut name = "";
                    for in_flight in IN_FLIGHT {
                        let file = SpillFile::open(Path::new(&directory), true)?;
                        let file = file.take_ahead(ahead << 20);
                        let (mut engine, _) = spill::open(file, wanted)?;
                        name = engine.name();
                        let to = [
                            TransferDirection::ToDisk,
                            TransferDirection::ToDisk,
                            TransferDirection::FromDisk,
                        ];
                        for (rates, direction) in rates.iter_mut().zip(to) {
                            let size = (total, frames, in_flight);
                            let seconds = pass(&mut *engine, direction, size, memory)?;
                            *rates += &format!(" {:5.0}", total as f64 / 1e6 / seconds);
                        }
                    }
                    println!("{round} {name:8} {:4} {ahead:2} |{}", frames * 64, rates.join(" |"));
                }
            }
        }
    }
    Ok(())
}
