//! A worker pool: jobs go out by a record pipe to each worker, results come back to one port.
//!
//! ```text
//! cargo run -p weir-pipes --example worker_pool
//! ```
//!
//! A worker is a thread here. A worker in another process would be given the reader of its pipe by
//! `RecordReader::into_handle`, and the name of the port.

use std::path::Path;
use weir::{
    Event, Options, Port, PortOptions, PortWriter, PortWriterOptions, RecordReader, Timeout,
};

const WORKERS: usize = 3;
const JOBS: u64 = 1000;

/// Squares the numbers that come, until there are no more.
fn work(mut jobs: RecordReader, results: &Path) -> weir::Result<()> {
    let mut results = PortWriter::connect(results, &PortWriterOptions::new())?;
    let mut job = [0; 8];
    while jobs.receive(&mut job)?.is_some() {
        let number = u64::from_le_bytes(job);
        results.send(&(number * number).to_le_bytes())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("worker-pool-{}", std::process::id()));
    let mut port = Port::create(&directory, &PortOptions::new())?;
    let mut jobs = Vec::new();
    for _ in 0..WORKERS {
        let (writer, reader) = weir::records(&Options::new())?;
        let results = port.path().to_owned();
        std::thread::spawn(move || work(reader, &results).expect("a worker"));
        jobs.push(writer);
    }
    // Each pipe holds all its jobs, so that this does not wait for the results to be received.
    for (number, worker) in (1..=JOBS).zip((0..WORKERS).cycle()) {
        jobs[worker].send(&number.to_le_bytes())?;
    }
    // A worker ends once its pipe is closed and empty, and the port says so.
    drop(jobs);
    let (mut sum, mut results, mut working) = (0, 0, WORKERS);
    let mut buffer = [0; 8];
    while working > 0 {
        // Shows what one worker has sent by now. The writer's number says which worker.
        port.receive_each_timeout(&mut buffer, Timeout::Never, |received, bytes| {
            match received.event {
                Event::Message { .. } => {
                    sum += u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
                    results += 1;
                }
                Event::Closed(_) => working -= 1,
                _ => {}
            }
        })?;
    }
    assert_eq!((results, sum), (JOBS, JOBS * (JOBS + 1) * (2 * JOBS + 1) / 6));
    println!("{results} results of {WORKERS} workers, the sum is {sum}");
    Ok(())
}
