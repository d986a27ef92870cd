//! Changes the sizes of a pipe in use, from outside.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, HeaderPage, page_bytes};
use crate::pipe::defaults::{Sizes, out_of_range};
use rustix::fd::AsFd;
use weir_policy::pipe::PipeShape;
use weir_ring::layout;
use weir_ring::primitive::Ordering;

/// The sizes to ask for. A size that is `None` stays as it is.
///
/// ```
/// use weir::tune::{Ask, ask};
/// let (mut writer, mut reader) = weir::pipe(&weir::Options::new().capacity_bytes(4096))?;
/// let sizes = Ask { segment_bytes: Some(1024), ..Ask::default() };
/// assert_eq!(ask(reader.memory_descriptor()?, sizes)?.segment_bytes, 1024);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// Bytes that the pipe holds.
    pub capacity_bytes: Option<u64>,
    /// Bytes of a segment.
    pub segment_bytes: Option<u64>,
    /// Bytes of the atomic bound.
    pub atomic_bytes: Option<u64>,
}

/// Asks for new sizes of the pipe with this memory file. The writer adopts them at its next write
/// that waits, or at the latest after some writes.
///
/// # Errors
/// The file is not the memory of a pipe; a size is out of its range; the capacity is less than the
/// bytes in the pipe, or more than its writer adopts. [`ErrorKind::WouldBlock`]: the reader has not
/// yet followed its writer to another memory.
pub fn ask(file: impl AsFd, ask: Ask) -> Result<Sizes> {
    let file = file.as_fd();
    let extent = memory::inspect(file)?;
    let page = HeaderPage::to_write(file)?;
    let header = page.header();
    let tuning = &header.tuning;
    let now = |word: &std::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
    if let Some(capacity) = ask.capacity_bytes {
        PipeShape::new(page_bytes(), capacity, None, None).map_err(out_of_range)?;
    }
    // A record pipe keeps its capacity.
    let kept = (extent.kind != layout::STREAM).then_some(extent.ring_bytes);
    let capacity = kept.or(ask.capacity_bytes).unwrap_or_else(|| now(&tuning.capacity_bytes));
    // A segment and a bound that were not asked for adapt to the capacity.
    let (asked, is) = (
        (ask.segment_bytes, ask.atomic_bytes),
        (Some(now(&tuning.segment_bytes)), Some(now(&tuning.atomic_bytes))),
    );
    let shape = PipeShape::fitted(page_bytes(), capacity, asked, is).map_err(out_of_range)?;
    let object = || format!("a pipe to {} bytes", shape.capacity_bytes());
    let most = now(&tuning.most_bytes);
    if ask.capacity_bytes.is_some() && shape.capacity_bytes() > most.max(extent.ring_bytes) {
        let is_open = header.writer_account.pid.load(Ordering::Relaxed) != 0;
        let why = if is_open {
            format!("its writer adopts at most {most} bytes")
        } else {
            String::from("its writer is not open yet")
        };
        return Err(Error::new(ErrorKind::Invalid, "enlarge", object(), why));
    }
    // A writer that has gone on looks for no wish here, and makes no further memory before that.
    let is_between = now(&header.writer.moved) != 0
        || shape.capacity_bytes() != extent.ring_bytes
            && extent.generation > 0
            && header.reader_account.pid.load(Ordering::Relaxed) == 0;
    if is_between {
        let why = "its reader has not followed its writer to another memory yet";
        return Err(Error::new(ErrorKind::WouldBlock, "set", "the sizes of a pipe", why));
    }
    let (written, read) = (now(&header.writer.position), now(&header.reader.position));
    let fill = written.saturating_sub(read);
    if fill > shape.capacity_bytes() {
        let why = format!("{fill} bytes are in it");
        return Err(Error::new(ErrorKind::Invalid, "shrink", object(), why));
    }
    tuning.capacity_bytes.store(shape.capacity_bytes(), Ordering::Relaxed);
    tuning.segment_bytes.store(shape.segment_bytes(), Ordering::Relaxed);
    tuning.atomic_bytes.store(shape.atomic_bytes(), Ordering::Relaxed);
    // Release pairs with the acquire in `Tuning::take_up`.
    tuning.change.fetch_add(1, Ordering::Release);
    Ok(shape.sizes())
}
