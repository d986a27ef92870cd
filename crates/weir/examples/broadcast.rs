//! Broadcast: one record to several readers, a pipe for each.
//!
//! ```text
//! cargo run -p weir-pipes --example broadcast
//! ```
//!
//! Each reader has a ring of its own, so a slow reader does not hold up others. It misses records,
//! or is dropped, as the sender chooses.

use weir::{ErrorKind, Options, RecordReader, RecordWriter, Timeout};

const READERS: usize = 3;
const RECORDS: u32 = 10_000;

/// A sender with a pipe to each reader.
struct Broadcast {
    readers: Vec<RecordWriter>,
    missed: u64,
}

impl Broadcast {
    /// Sends a record to each reader that has room for it, and forgets readers that are gone.
    fn send(&mut self, record: &[u8]) -> weir::Result<()> {
        let mut failed = Ok(());
        self.readers.retain_mut(|reader| match reader.try_send(record) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.missed += 1;
                true
            }
            Err(error) if error.kind() == ErrorKind::Closed => false,
            Err(error) => {
                failed = Err(error);
                true
            }
        });
        failed
    }

    /// Sends the last record, for which it waits.
    fn finish(mut self, record: &[u8]) -> weir::Result<u64> {
        for reader in &mut self.readers {
            reader.send_timeout(record, Timeout::Never)?;
        }
        Ok(self.missed)
    }
}

/// Reads to the end: how many records came, in order and whole.
fn read(mut reader: RecordReader) -> weir::Result<u64> {
    let (mut came, mut last) = (0, None);
    let mut record = [0; 4];
    while reader.receive(&mut record)?.is_some() {
        let number = u32::from_le_bytes(record);
        assert!(last.is_none_or(|last| number > last));
        (came, last) = (came + 1, Some(number));
    }
    assert_eq!(last, Some(RECORDS));
    Ok(came)
}

fn main() -> weir::Result<()> {
    let (mut readers, mut reading) = (Vec::new(), Vec::new());
    for _ in 0..READERS {
        let (writer, reader) = weir::records(&Options::new())?;
        readers.push(writer);
        // In another process: `reader.into_handle()`.
        reading.push(std::thread::spawn(move || read(reader)));
    }
    let mut broadcast = Broadcast { readers, missed: 0 };
    for number in 0..RECORDS {
        broadcast.send(&number.to_le_bytes())?;
    }
    let missed = broadcast.finish(&RECORDS.to_le_bytes())?;
    let mut came = 0;
    for thread in reading {
        came += thread.join().expect("a reader")?;
    }
    assert_eq!(came + missed, READERS as u64 * u64::from(RECORDS + 1));
    println!("{READERS} readers, {came} records came, {missed} were missed");
    Ok(())
}
