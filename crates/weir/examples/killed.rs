//! A reader that is killed: its writer waits for room, and learns of it at once.

use std::process::{Command, abort};
use std::time::Duration;
use weir::{Listener, Options, RecordReader, RecordWriter};

/// Takes ten records and dies, without closing its end.
fn take_ten(path: &str) -> weir::Result<()> {
    let mut reader: RecordReader = Listener::bind(path)?.accept()?;
    for _ in 0..10 {
        reader.receive(&mut [0; 1000])?;
    }
    abort()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args().nth(1) {
        return Ok(take_ten(&path)?);
    }
    let path = std::env::temp_dir().join(format!("killed-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe()?).arg(&path).spawn()?;
    let options = Options::new().connect_timeout(Duration::from_secs(10));
    let mut writer = RecordWriter::connect(&path, &options)?;
    // Once the pipe is full this waits, until the reader is gone.
    let error = loop {
        if let Err(error) = writer.send(&[b'x'; 1000]) {
            break error;
        }
    };
    child.wait()?;
    println!("{:?}: {error}", error.kind());
    println!("its end: {:?}", writer.ending()?);
    Ok(())
}
