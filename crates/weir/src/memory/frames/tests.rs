//! Tests of who may touch a frame, and when.

use super::*;
use std::sync::atomic::AtomicBool;

fn frames(count: u32) -> Arc<Frames> {
    Frames::new(page_bytes() as usize, count).expect("made")
}

#[test]
fn readers_see_what_is_committed_and_no_more() {
    let frames = frames(2);
    let mut writer = frames.writer(1).expect("free");
    let reader = frames.reader(1).expect("beside its writer");
    assert_eq!(reader.bytes(0), b"");
    writer.space()[..5].copy_from_slice(b"hello");
    writer.commit(3);
    let seen = reader.bytes(1);
    writer.space()[1] = b'O';
    writer.commit(2);
    assert_eq!((seen, reader.bytes(1)), (&b"el"[..], &b"ellO"[..]));
    assert_eq!(reader.bytes(5), b"");
    assert_eq!(reader.bytes(usize::MAX), b"");
    assert_eq!(writer.committed(), 5);
    writer.commit(usize::MAX);
    assert_eq!((writer.committed(), writer.space().len()), (frames.frame_bytes(), 0));
    assert_eq!(reader.bytes(0).len(), frames.frame_bytes());
    assert_eq!(frames.reader(0).expect("another").bytes(0), b"", "frames are apart");
}

#[test]
fn a_frame_is_emptied_only_when_nobody_uses_it() {
    let frames = frames(1);
    let mut writer = frames.writer(0).expect("free");
    assert!(frames.writer(0).is_none(), "one writer");
    writer.commit(9);
    let reader = frames.reader(0).expect("shared");
    drop(writer);
    assert!(frames.writer(0).is_none(), "a reader is there");
    assert!(frames.lend(0, TransferDirection::FromDisk).is_none(), "a reader is there");
    assert_eq!(reader.bytes(0).len(), 9, "what was committed outlives its writer");
    drop(reader);
    assert_eq!(frames.writer(0).expect("free").committed(), 0);
    assert_eq!(frames.reader(0).expect("emptied").bytes(0), b"");
}

#[test]
fn the_kernel_reads_beside_readers_and_writes_alone() {
    let frames = frames(1);
    let mut writer = frames.writer(0).expect("free");
    assert!(frames.lend(0, TransferDirection::ToDisk).is_none(), "more is to come");
    writer.commit(frames.frame_bytes());
    let loan = frames.lend(0, TransferDirection::ToDisk).expect("full");
    let reader = frames.reader(0).expect("what is being written can be read");
    drop((writer, reader));
    assert!(frames.writer(0).is_none(), "the kernel reads it");
    drop(loan);
    let loan = frames.lend(0, TransferDirection::FromDisk).expect("free");
    let direction = [TransferDirection::ToDisk, TransferDirection::FromDisk];
    assert!(direction.iter().all(|direction| frames.lend(0, *direction).is_none()));
    assert!(frames.reader(0).is_none() && frames.writer(0).is_none());
    loan.filled();
    let reader = frames.reader(0).expect("filled");
    assert_eq!(reader.bytes(0).len(), frames.frame_bytes());
    drop(reader);
    drop(frames.lend(0, TransferDirection::FromDisk).expect("free"));
    assert_eq!(frames.reader(0).expect("free").bytes(0), b"", "what was not filled is empty");
}

#[test]
fn the_last_block_of_a_writer_that_has_gone_can_be_written() {
    let frames = frames(1);
    frames.writer(0).expect("free").commit(7);
    assert_eq!(frames.lend(0, TransferDirection::ToDisk).map(|loan| loan.frame()), Some(0));
}

#[test]
fn there_is_no_frame_beyond_the_last() {
    let frames = frames(3);
    assert!(frames.writer(3).is_none() && frames.reader(u32::MAX).is_none());
    assert!(frames.lend(3, TransferDirection::FromDisk).is_none());
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let page = page_bytes() as usize;
    for (frame_bytes, count) in [(page - 1, 4), (page / 2, 4), (3 * page, 4), (page, 0), (0, 0)] {
        let error = Frames::new(frame_bytes, count).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    // Under miri this allocation would abort.
    assert!(cfg!(miri) || Frames::new(MOST_FRAME_BYTES, u32::MAX).is_err());
}

#[test]
fn guards_outlive_the_frames_they_are_of() {
    let frames = frames(1);
    let mut writer = frames.writer(0).expect("free");
    drop(frames);
    writer.space().fill(3);
    writer.commit(1);
}

/// A writer fills frames again and again while a reader follows and checks all it sees.
#[test]
fn what_a_reader_follows_is_whole() {
    let laps: u32 = if cfg!(miri) { 8 } else { 2_000 };
    let frames = frames(2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut lap = 0;
            while lap < laps {
                let Some(mut writer) = frames.writer(lap % 2) else {
                    std::thread::yield_now();
                    continue;
                };
                while !writer.space().is_empty() {
                    let bytes = writer.space().len().min(1000);
                    writer.space()[..bytes].fill(lap as u8);
                    writer.commit(bytes);
                }
                lap += 1;
            }
            // Release: pairs with the Acquire below.
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            for frame in 0..2 {
                let Some(reader) = frames.reader(frame) else { continue };
                let bytes = reader.bytes(0);
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "two laps in one frame");
            }
        }
    });
}

#[test]
#[cfg(not(miri))]
fn frames_are_taken_from_the_machine_as_they_are_touched() {
    // 4 TiB: more than the machines have that run this test.
    let frames = Frames::new(MOST_FRAME_BYTES, 4096).expect("4 TiB of nothing");
    let mut writer = frames.writer(frames.count() - 1).expect("free");
    writer.space()[0] = 1;
}
