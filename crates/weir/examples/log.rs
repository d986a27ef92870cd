//! A hundred writers and a log: every process sends lines to one port, by its name.

use std::process::Command;
use weir::{Ending, Event, Port, PortOptions, PortWriter, PortWriterOptions};

const WRITERS: usize = 100;
const LINES: u64 = 10;

fn work(path: &str, number: &str) -> weir::Result<()> {
    let mut log = PortWriter::connect(path, &PortWriterOptions::new())?;
    for line in 1..=LINES {
        log.send(format!("worker {number} has done {line} of {LINES}").as_bytes())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, path, number] = &args[..] {
        return Ok(work(path, number)?);
    }
    let path = std::env::temp_dir().join(format!("log-{}", std::process::id()));
    let mut port = Port::create(&path, &PortOptions::new())?;
    let mut children = Vec::new();
    for number in 0..WRITERS {
        let mut worker = Command::new(std::env::current_exe()?);
        children.push(worker.arg(&path).arg(number.to_string()).spawn()?);
    }
    let (mut lines, mut ended, mut buffer) = (0, 0, [0; 256]);
    while ended < WRITERS {
        let received = port.receive(&mut buffer)?;
        match received.event {
            // The kernel says which process sent it: port.writers() tells.
            Event::Message { .. } => lines += 1,
            Event::Closed(Ending::Closed) => ended += 1,
            Event::Closed(how) => return Err(format!("a worker has ended: {how:?}").into()),
            _ => {}
        }
    }
    for mut child in children {
        child.wait()?;
    }
    println!("{lines} lines of {ended} writers");
    Ok(())
}
