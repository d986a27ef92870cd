//! Files as transfers read and write them: many blocks with one call of the system.

use super::receiver::Sink;
use super::sender::Source;
use crate::jail::PartFile;
use crate::spans;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once where blocks are shorter.
const READ_BYTES: usize = 32 << 10;

/// A file that is sent.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    /// Its length when it was opened.
    size_bytes: u64,
    /// What was read last, and where that begins in the file.
    bytes: Vec<u8>,
    offset: u64,
}

impl FileSource {
    /// Sends this file, which had this length when it was opened.
    pub fn new(file: File, size_bytes: u64) -> FileSource {
        FileSource { file, size_bytes, bytes: Vec::new(), offset: 0 }
    }

    fn read_some(&mut self, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        if to.len() >= READ_BYTES {
            return spans::FILE_READ.run(|| self.file.read_at(to, offset));
        }
        let known = |offset: u64| usize::try_from(offset.checked_sub(self.offset)?).ok();
        let mut at = known(offset).unwrap_or(usize::MAX);
        if at >= self.bytes.len() {
            self.bytes.resize(READ_BYTES, 0);
            let read = spans::FILE_READ.run(|| self.file.read_at(&mut self.bytes, offset));
            self.bytes.truncate(*read.as_ref().unwrap_or(&0));
            read?;
            (self.offset, at) = (offset, 0);
        }
        let found = self.bytes.get(at..).unwrap_or_default();
        let bytes = found.len().min(to.len());
        to[..bytes].copy_from_slice(&found[..bytes]);
        Ok(bytes)
    }
}

impl Source for FileSource {
    fn read_at(&mut self, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        let wants = !to.is_empty();
        match self.read_some(offset, to)? {
            // A short block would pass for the last one, and the part for the whole.
            0 if wants && offset < self.size_bytes => {
                Err(io::Error::other("the file has become shorter"))
            }
            bytes => Ok(bytes),
        }
    }
}

impl Sink for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        spans::FILE_WRITE.run(|| PartFile::write(self, bytes))
    }

    fn finish(&mut self) -> io::Result<()> {
        spans::FILE_WRITE.run(|| PartFile::finish(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_in_any_order() {
        let whole: Vec<u8> = (0..100_001_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
        let place = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(place.path(), &whole).expect("written");
        let size_bytes = whole.len() as u64;
        let mut source = FileSource::new(place.reopen().expect("opened"), size_bytes);
        let mut random = fastrand::Rng::with_seed(20);
        for _ in 0..2000 {
            let offset = random.usize(0..110_000);
            let mut to = vec![0; random.usize(1..40_000)];
            let bytes = source.read_at(offset as u64, &mut to).expect("read");
            let rest = whole.get(offset..).unwrap_or_default();
            assert_eq!(bytes == 0, rest.is_empty(), "at {offset}");
            assert!(to[..bytes] == rest[..bytes], "at {offset}");
        }
    }

    /// What was left of it was once sent as the whole file.
    #[test]
    fn a_file_that_becomes_shorter_is_an_error_and_no_end() {
        let place = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(place.path(), [7; 100_000]).expect("written");
        let mut source = FileSource::new(place.reopen().expect("opened"), 100_000);
        let mut to = [0; 512];
        assert_eq!(source.read_at(0, &mut to).expect("read"), 512);
        place.as_file().set_len(40_000).expect("shorter");
        assert_eq!(source.read_at(39_999, &mut to).expect("read"), 1);
        for offset in [40_000, 99_999] {
            let error = source.read_at(offset, &mut to).expect_err("it is shorter");
            assert_eq!(error.to_string(), "the file has become shorter");
        }
        assert_eq!(source.read_at(100_000, &mut to).expect("the end"), 0);
    }

    #[test]
    fn a_file_is_written_as_it_came_in_pieces_of_any_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("whole");
        let mut random = fastrand::Rng::with_seed(22);
        let mut whole = Vec::new();
        let mut sink = crate::jail::new_file(&path).expect("made");
        for _ in 0..200 {
            let longest = *random.choice(&[600, 5000, 40_000]).expect("one of them");
            let bytes = random.usize(0..longest);
            let piece: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
            Sink::write(&mut sink, &piece).expect("written");
            whole.extend_from_slice(&piece);
        }
        assert!(!path.exists());
        Sink::finish(&mut sink).expect("finished");
        assert!(std::fs::read(&path).expect("it has its name") == whole);
    }
}
