//! Two processes and a queue of arrays: a child makes frames, its parent adds them up.

use std::process::Command;
use weir::{Listener, Options, RecordReader, RecordWriter};

const FRAMES: usize = 100;
const FRAME_BYTES: usize = 640 * 480;

fn produce(path: &str) -> weir::Result<()> {
    let mut frames = RecordWriter::connect(path, &Options::new())?;
    for number in 0..FRAMES {
        // In place, in the pipe's own memory.
        let mut frame = frames.reserve(FRAME_BYTES)?;
        frame.view()?.copy_from(0, &[number as u8; FRAME_BYTES]);
        frame.commit()?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args().nth(1) {
        return Ok(produce(&path)?);
    }
    let path = std::env::temp_dir().join(format!("arrays-{}", std::process::id()));
    let listener = Listener::bind(&path)?;
    let mut child = Command::new(std::env::current_exe()?).arg(&path).spawn()?;
    let mut frames: RecordReader = listener.accept()?;
    let mut sum = 0;
    while let Some(mut frame) = frames.lend()? {
        // Only what is looked at is copied out of memory that another process can write.
        let mut first = [0];
        frame.view()?.copy_to(0, &mut first);
        sum += u64::from(first[0]);
        frame.consume()?;
    }
    child.wait()?;
    println!("{} frames, the sum of their first bytes is {sum}", frames.account()?.records);
    Ok(())
}
