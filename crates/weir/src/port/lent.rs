//! A message that is shown in place, in its writer's ring.

use crate::memory::View;
use rustix::fd::BorrowedFd;

/// A message that [`Port::lend_each_timeout`](super::Port::lend_each_timeout) shows.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions, Timeout};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// let (mut buffer, mut first) = (vec![0; 4096], [0; 5]);
/// port.lend_each_timeout(&mut buffer, Timeout::Never, |_, lent| lent.copy_to(0, &mut first))?;
/// assert_eq!(&first, b"start");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub enum Lent<'a> {
    /// A message in its writer's ring. The writer may still write to it: read it once, check it,
    /// then use it.
    InPlace(View<'a>),
    /// A message that came in several pieces and was put together.
    Copied(&'a [u8]),
}

impl Lent<'_> {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Lent::InPlace(view) => view.len(),
            Lent::Copied(bytes) => bytes.len(),
        }
    }

    /// Whether the message is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `offset` on to `to`.
    ///
    /// # Panics
    /// If the range reaches beyond the end of the message.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) {
        match self {
            Lent::InPlace(view) => view.copy_to(offset, to),
            Lent::Copied(bytes) => to.copy_from_slice(&bytes[offset..offset + to.len()]),
        }
    }

    /// Writes `head` and then `bytes` bytes from `offset` on to a descriptor, by one writev(2)
    /// straight from the ring. Returns how many bytes were written.
    ///
    /// # Errors
    /// Those of writev(2).
    ///
    /// # Panics
    /// If the range reaches beyond the end of the message.
    pub fn write_to(
        &self,
        fd: BorrowedFd,
        head: &[u8],
        offset: usize,
        bytes: usize,
    ) -> std::io::Result<usize> {
        match self {
            Lent::InPlace(view) => view.write_to(fd, head, offset, bytes),
            Lent::Copied(all) => {
                let parts = [
                    std::io::IoSlice::new(head),
                    std::io::IoSlice::new(&all[offset..offset + bytes]),
                ];
                Ok(rustix::io::writev(fd, &parts)?)
            }
        }
    }
}
