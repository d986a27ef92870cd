//! The ring under `weir.Queue`: many processes put, many get.
//!
//! One lock is for those who put, and one for those who get. Each change under a lock is one store
//! to the place of its side, so whoever is killed leaves a sound queue: what it was putting is not
//! there, and what it was getting stays. A ring that is full and that nobody empties is followed
//! by a larger one.

use crate::errors;
use crate::memory::{Fresh, Guard, PAGE_BYTES, RingWords, Shared, Side, Source};
use crate::peers::{self, Gone};
use crate::wait::{SLICE, Until};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir::parts::Mapping;

/// The unit of places in a ring.
const UNIT: u64 = 8;
/// Bytes before an item: its length, its kind, the number of its parts.
const HEAD: usize = 16;
/// The longest ring: places count 2^32 units.
const MOST_RING: u64 = UNIT << 31;
/// The shortest: each begins at a page.
const LEAST_RING: u64 = PAGE_BYTES;
/// A ring that is full gets a larger successor when nobody has got anything for so long.
const PATIENCE: Duration = Duration::from_millis(10);
/// How often one who waits looks for processes that died.
const LOOK: Duration = Duration::from_millis(200);
/// Items that are longer are copied while other threads of Python run.
const LONG: usize = 64 << 10;
/// Buffers of a pickle that are as long get blocks of memory.
const BLOCK: usize = 1 << 20;
/// The kind of item whose parts are a pickle and its buffers.
const PICKLE: u32 = 1;
/// The most parts of an item.
const MOST_PARTS: usize = 1 << 16;

/// A place: items and units, each counted without end.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    items: u32,
    units: u32,
}

impl Place {
    fn of(word: &AtomicU64) -> Place {
        // Acquire: what the other side did before it moved is done.
        let word = word.load(Ordering::Acquire);
        Place { items: (word >> 32) as u32, units: word as u32 }
    }

    fn after(self, bytes: u64) -> u64 {
        let units = self.units.wrapping_add((bytes / UNIT) as u32);
        u64::from(self.items.wrapping_add(1)) << 32 | u64::from(units)
    }
}

/// A ring as one call uses it.
struct Ring<'a> {
    at: u64,
    bytes: u64,
    words: &'a RingWords,
}

impl Ring<'_> {
    fn place(&self, side: Side) -> Place {
        Place::of(&self.words.places[side as usize].0)
    }

    fn used(&self) -> u64 {
        let (put, got) = (self.place(Side::Put), self.place(Side::Get));
        u64::from(put.units.wrapping_sub(got.units)) * UNIT
    }

    fn position(&self, side: Side) -> u64 {
        u64::from(self.place(side).units) * UNIT
    }

    fn area(&self) -> (u64, u64) {
        (self.at, self.bytes)
    }
}

/// Why an item was not put.
enum Blocked {
    /// There are as many items as there may be.
    Items,
    /// The ring has no room for it now.
    Room,
}

/// The core of a queue. `weir.Queue` is built on it.
#[pyclass(frozen, module = "weir._weir")]
pub struct QueueRing {
    shared: Shared,
    /// All that is mapped of the rings. It is replaced when there are more.
    rings: Mutex<Arc<Mapping>>,
    /// The place of this process among the peers, or `usize::MAX`.
    peer: Mutex<Option<usize>>,
    /// Deaths that this process has heard of.
    told: Mutex<HashSet<(usize, u64)>>,
    /// How long a wait spins, by what spinning has brought.
    spin_ns: AtomicU32,
}

/// A lock of this process, which is never held where Python may run.
fn own<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QueueRing {
    fn over(shared: Shared) -> PyResult<QueueRing> {
        let rings = Mutex::new(Arc::new(shared.map_rings()?));
        let spin_ns = AtomicU32::new(MOST_SPIN_NS);
        let queue =
            QueueRing { shared, rings, peer: Mutex::default(), told: Mutex::default(), spin_ns };
        // Deaths of before are old news.
        let old = peers::gone(queue.shared.header()).map(|gone| gone.key);
        *own(&queue.told) = old.collect();
        queue.join();
        Ok(queue)
    }

    fn mapping(&self) -> Arc<Mapping> {
        own(&self.rings).clone()
    }

    /// The mapping that has the ring of a side, and where this begins.
    fn mapped(&self, side: Side) -> PyResult<(Arc<Mapping>, u64)> {
        let at = self.shared.header().rings[side as usize].0.load(Ordering::Acquire);
        let mapping = self.mapping();
        if (at as usize) < mapping.bytes() {
            return Ok((mapping, at));
        }
        let mapping = Arc::new(self.shared.map_rings()?);
        *own(&self.rings) = mapping.clone();
        Ok((mapping, at))
    }

    fn ring<'m>(&self, mapping: &'m Mapping, at: u64) -> PyResult<Ring<'m>> {
        let words = Shared::ring(mapping, at).ok_or_else(|| corrupt("it has a ring nowhere"))?;
        let bytes = words.bytes.load(Ordering::Relaxed);
        let room = (mapping.bytes() as u64).saturating_sub(at).saturating_sub(PAGE_BYTES);
        if !bytes.is_power_of_two() || bytes > room {
            return Err(corrupt("it has a ring of no size"));
        }
        Ok(Ring { at, bytes, words })
    }

    /// Takes the lock of a side, and waits for it while other threads of Python run.
    fn lock(&self, py: Python<'_>, side: Side, until: Until) -> PyResult<Option<Guard<'_>>> {
        loop {
            if let Some(guard) = self.shared.try_lock(side)? {
                return Ok(Some(guard));
            }
            let time = until.left().map_or(SLICE, |left| left.min(SLICE));
            let spun = py.detach(|| {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(10) {
                    std::hint::spin_loop();
                    match self.shared.try_lock(side) {
                        Ok(None) => {}
                        other => return other,
                    }
                }
                if time.is_zero() { Ok(None) } else { self.shared.lock_within(side, time) }
            })?;
            if spun.is_some() || until.is_over() {
                return Ok(spun);
            }
            py.check_signals()?;
        }
    }

    /// Puts an item, if there is room.
    fn try_put(
        &self,
        py: Python<'_>,
        guard: Guard<'_>,
        item: &Item<'_, '_>,
        grow: bool,
    ) -> PyResult<Option<Blocked>> {
        let header = self.shared.header();
        let (mut mapping, mut at) = self.mapped(Side::Put)?;
        // One who died here may have added a ring that the others were not told of.
        while let next @ 1.. = self.ring(&mapping, at)?.words.next.load(Ordering::Acquire) {
            header.rings[Side::Put as usize].0.store(next, Ordering::Release);
            (mapping, at) = self.mapped(Side::Put)?;
        }
        let mut ring = self.ring(&mapping, at)?;
        let most = header.most_items.load(Ordering::Relaxed);
        if most > 0 && self.items(&ring)? >= most {
            return Ok(Some(Blocked::Items));
        }
        let larger;
        if ring.bytes - ring.used().min(ring.bytes) < item.bytes {
            // The longest, so that it is not full as soon.
            let bytes = (item.bytes * 2).max(ring.bytes * 2).next_power_of_two();
            let never_fits = item.bytes > ring.bytes;
            if !never_fits && !grow {
                return Ok(Some(Blocked::Room));
            }
            if bytes > MOST_RING {
                let why = format!("an item of {} bytes does not fit", item.bytes);
                return Err(errors::invalid(why));
            }
            let items = ring.place(Side::Put).items;
            let (next, mapped) =
                py.detach(|| self.shared.add_ring(bytes, items)).map_err(|cause| {
                    errors::os(
                        format!("cannot enlarge the queue to {bytes} bytes: {cause}"),
                        &cause,
                    )
                })?;
            larger = Arc::new(mapped);
            *own(&self.rings) = larger.clone();
            ring.words.next.store(next, Ordering::Release);
            header.rings[Side::Put as usize].0.store(next, Ordering::Release);
            ring = self.ring(&larger, next)?;
            mapping = larger.clone();
        }
        self.copy_in(py, &mapping, &ring, item);
        let place = ring.place(Side::Put);
        ring.words.places[Side::Put as usize].0.store(place.after(item.bytes), Ordering::Release);
        self.count(Side::Put);
        drop(guard);
        self.wake(Side::Get);
        Ok(None)
    }

    fn copy_in(&self, py: Python<'_>, mapping: &Mapping, ring: &Ring<'_>, item: &Item<'_, '_>) {
        let (area, mut position) = (ring.area(), ring.position(Side::Put));
        let mut copy = |from: &[u8]| {
            Shared::copy_in(mapping, area, position, from);
            position += from.len() as u64;
        };
        copy(&item.head);
        if item.bytes > LONG as u64 {
            py.detach(|| item.parts.iter().for_each(|part| copy(part.bytes())));
        } else {
            item.parts.iter().for_each(|part| copy(part.bytes()));
        }
    }

    /// Items in the queue, seen by one who holds the lock of those who put.
    fn items(&self, put: &Ring<'_>) -> PyResult<u32> {
        let (mapping, at) = self.mapped(Side::Get)?;
        let got = self.ring(&mapping, at)?.place(Side::Get).items;
        Ok(put.place(Side::Put).items.wrapping_sub(got))
    }

    /// Gets the next item, if there is one.
    fn try_get<'py>(
        &self,
        py: Python<'py>,
        guard: Guard<'_>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let (mut mapping, mut at) = self.mapped(Side::Get)?;
        let mut ring = self.ring(&mapping, at)?;
        loop {
            // The successor is looked at first: nothing is put here once there is one.
            let next = ring.words.next.load(Ordering::Acquire);
            if ring.used() > 0 {
                break;
            }
            if next == 0 {
                return Ok(None);
            }
            let old = ring.area();
            self.shared.header().rings[Side::Get as usize].0.store(next, Ordering::Release);
            self.shared.forget_ring(old.0, old.1);
            (mapping, at) = self.mapped(Side::Get)?;
            ring = self.ring(&mapping, at)?;
        }
        let (kind, bytes, lengths) = self.read_head(&mapping, &ring)?;
        let mut parts = lengths
            .iter()
            .enumerate()
            .map(|(number, bytes)| match number {
                0 => Fresh::bytes(py, *bytes),
                _ if kind == PICKLE && *bytes >= BLOCK => Fresh::block(py, *bytes),
                _ => Fresh::bytearray(py, *bytes),
            })
            .collect::<PyResult<Vec<_>>>()?;
        let mut position = ring.position(Side::Get) + (HEAD + 8 * lengths.len()) as u64;
        let mut copy = |to: &mut [u8]| {
            Shared::copy_out(&mapping, ring.area(), position, to);
            position += to.len() as u64;
        };
        if bytes > LONG as u64 {
            py.detach(|| parts.iter_mut().for_each(|part| copy(part.fill())));
        } else {
            parts.iter_mut().for_each(|part| copy(part.fill()));
        }
        self.count(Side::Get);
        let place = ring.place(Side::Get);
        ring.words.places[Side::Get as usize].0.store(place.after(bytes), Ordering::Release);
        let room = ring.used() <= ring.bytes / 4 * 3;
        drop(guard);
        if room || self.shared.header().most_items.load(Ordering::Relaxed) > 0 {
            self.wake(Side::Put);
        }
        let mut parts = parts.into_iter().map(Fresh::object);
        let first = parts.next().ok_or_else(|| corrupt("it has an item of no parts"))?;
        let rest = PyList::new(py, parts.collect::<Vec<_>>())?;
        (kind, first, rest).into_pyobject(py).map(Some)
    }

    /// The kind of the next item, its bytes in the ring, and the lengths of its parts.
    fn read_head(&self, mapping: &Mapping, ring: &Ring<'_>) -> PyResult<(u32, u64, Vec<usize>)> {
        let (mut head, at) = ([0; HEAD], ring.position(Side::Get));
        Shared::copy_out(mapping, ring.area(), at, &mut head);
        let bytes = u64::from_ne_bytes(head[..8].try_into().unwrap_or_default());
        let kind = u32::from_ne_bytes(head[8..12].try_into().unwrap_or_default());
        let count = u32::from_ne_bytes(head[12..].try_into().unwrap_or_default()) as usize;
        let table = HEAD as u64 + 8 * count as u64;
        let sound = bytes <= ring.used() && bytes.is_multiple_of(UNIT) && table <= bytes;
        if !sound || !(1..=MOST_PARTS).contains(&count) {
            return Err(corrupt("it has an item of no sound length"));
        }
        let mut lengths = vec![0; 8 * count];
        Shared::copy_out(mapping, ring.area(), at + HEAD as u64, &mut lengths);
        let lengths: Vec<usize> = lengths
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()) as usize)
            .collect();
        let sum = lengths.iter().try_fold(table, |sum, bytes| sum.checked_add(*bytes as u64));
        if sum.is_none_or(|sum| sum > bytes) {
            return Err(corrupt("it has an item longer than itself"));
        }
        Ok((kind, bytes, lengths))
    }

    fn count(&self, side: Side) {
        let Some(place) = *own(&self.peer) else { return };
        let peer = &self.shared.header().peers[place];
        let count = if side == Side::Put { &peer.put } else { &peer.got };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Wakes one of a side, if one may sleep.
    fn wake(&self, side: Side) {
        let word = &self.shared.header().sleepers[side as usize].0;
        // The place was stored before; one who announces a sleep looks at it after this.
        fence(Ordering::SeqCst);
        if word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0 {
            let flags = rustix::thread::futex::Flags::empty();
            let _ = rustix::thread::futex::wake(word, flags, 1);
        }
    }

    /// Whether one who gets would find something, or one who puts would find the reader moved on.
    fn moved(&self, mapping: &Mapping, (side, at, place): (Side, u64, u64)) -> bool {
        let header = self.shared.header();
        // One who gets waits for those who put to move, and the other way round.
        let other = match side {
            Side::Get => Side::Put,
            Side::Put => Side::Get,
        };
        if header.rings[side as usize].0.load(Ordering::Acquire) != at {
            return true;
        }
        let Some(words) = Shared::ring(mapping, at) else { return true };
        words.next.load(Ordering::Acquire) != 0
            || words.places[other as usize].0.load(Ordering::Acquire) != place
    }

    /// What a call that is to wait has seen, from before it looked.
    fn seen(&self, side: Side) -> PyResult<(Arc<Mapping>, (Side, u64, u64))> {
        let (mapping, at) = self.mapped(side)?;
        let other = if side == Side::Get { Side::Put } else { Side::Get };
        let words = Shared::ring(&mapping, at).ok_or_else(|| corrupt("it has a ring nowhere"))?;
        let place = words.places[other as usize].0.load(Ordering::Acquire);
        Ok((mapping, (side, at, place)))
    }

    /// Waits until the other side has moved since it was seen, at most so long: whether it slept.
    fn wait(
        &self,
        py: Python<'_>,
        (mapping, seen): &(Arc<Mapping>, (Side, u64, u64)),
        time: Duration,
    ) -> PyResult<bool> {
        let word = &self.shared.header().sleepers[seen.0 as usize].0;
        let slept = py.detach(|| {
            if self.spin(time, || self.moved(mapping, *seen)) {
                return false;
            }
            word.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.moved(mapping, *seen) {
                return false;
            }
            let time = crate::wait::timespec(time.min(SLICE));
            let flags = rustix::thread::futex::Flags::empty();
            let _ = rustix::thread::futex::wait(word, flags, 1, Some(&time));
            true
        });
        py.check_signals()?;
        Ok(slept)
    }

    /// Looks again and again, for as long as that has paid: whether it did.
    fn spin(&self, time: Duration, done: impl Fn() -> bool) -> bool {
        let most = self.spin_ns.load(Ordering::Relaxed);
        let (begun, most_time) = (Instant::now(), Duration::from_nanos(most.into()).min(time));
        loop {
            for _ in 0..16 {
                if done() {
                    let longer = (most.saturating_mul(2)).min(MOST_SPIN_NS);
                    self.spin_ns.store(longer, Ordering::Relaxed);
                    return true;
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() >= most_time {
                self.spin_ns.store((most / 2).max(LEAST_SPIN_NS), Ordering::Relaxed);
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Raises for a process that died, if one who waits on this side may wait for it in vain; says
    /// so by a warning if it only took items.
    fn hear(&self, py: Python<'_>, side: Side) -> PyResult<()> {
        let fresh: Vec<Gone> = {
            let mut told = own(&self.told);
            peers::gone(self.shared.header()).filter(|gone| told.insert(gone.key)).collect()
        };
        for gone in fresh {
            let how = if gone.failed { "ended by an error" } else { "died" };
            let Gone { pid, put, got, .. } = gone;
            let text = format!(
                "process {pid} {how} with the queue open: it had put {put} items and got {got}"
            );
            let only_other = match side {
                Side::Get => put == 0 && got > 0,
                Side::Put => got == 0 && put > 0,
            };
            if !only_other {
                return Err(errors::peer_died(text));
            }
            let category = py.get_type::<pyo3::exceptions::PyRuntimeWarning>();
            let text = std::ffi::CString::new(text).unwrap_or_default();
            PyErr::warn(py, &category, &text, 1)?;
        }
        Ok(())
    }

    fn join(&self) {
        *own(&self.peer) = peers::join(self.shared.header());
    }
}

const MOST_SPIN_NS: u32 = 50_000;
const LEAST_SPIN_NS: u32 = 2_000;

fn corrupt(why: &str) -> PyErr {
    errors::corrupt(format!("cannot use the queue: {why}"))
}

/// An item that is to be put.
struct Item<'a, 'py> {
    head: Vec<u8>,
    parts: &'a [Source<'py>],
    /// Its bytes in a ring.
    bytes: u64,
}

impl<'a, 'py> Item<'a, 'py> {
    /// An item whose first part is made of the first `joined` of these.
    fn new(kind: u32, parts: &'a [Source<'py>], joined: usize) -> Item<'a, 'py> {
        let (stream, others) = parts.split_at(joined);
        let first = stream.iter().map(Source::len).sum::<usize>();
        let lengths = std::iter::once(first).chain(others.iter().map(Source::len));
        let table = HEAD + 8 * (1 + others.len());
        let sum = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let bytes = (table as u64 + sum).next_multiple_of(UNIT);
        let mut head = Vec::with_capacity(table);
        head.extend_from_slice(&bytes.to_ne_bytes());
        head.extend_from_slice(&kind.to_ne_bytes());
        head.extend_from_slice(&(1 + others.len() as u32).to_ne_bytes());
        lengths.for_each(|bytes| head.extend_from_slice(&(bytes as u64).to_ne_bytes()));
        Item { head, parts, bytes }
    }
}

#[pymethods]
impl QueueRing {
    /// Makes the memory of a queue.
    #[staticmethod]
    fn make(most_items: u32, bytes: u64) -> PyResult<QueueRing> {
        if bytes > MOST_RING {
            return Err(errors::invalid(format!("a queue of {bytes} bytes is too large")));
        }
        let bytes = bytes.max(LEAST_RING).next_power_of_two();
        let shared = Shared::make(most_items, bytes)
            .map_err(|cause| errors::os(format!("cannot make a queue: {cause}"), &cause))?;
        QueueRing::over(shared)
    }

    /// Opens the memory behind a descriptor, of which this takes a copy.
    #[staticmethod]
    fn open(fd: i32) -> PyResult<QueueRing> {
        let failed = |cause: std::io::Error| {
            errors::os(format!("cannot open the queue behind descriptor {fd}: {cause}"), &cause)
        };
        let file = crate::memory::duplicate(fd).map_err(failed)?;
        QueueRing::over(Shared::open(file).map_err(failed)?)
    }

    /// The descriptor of the memory.
    fn fileno(&self) -> i32 {
        self.shared.file().as_raw_fd()
    }

    /// Puts an item of a kind: false where there was no room in time. Its first part comes as a
    /// stream of several. `wait` is in seconds; None is for ever.
    fn put(
        &self,
        py: Python<'_>,
        kind: u32,
        stream: Vec<Bound<'_, PyAny>>,
        others: Vec<Bound<'_, PyAny>>,
        wait: Option<f64>,
    ) -> PyResult<bool> {
        if others.len() >= MOST_PARTS {
            return Err(errors::invalid(format!("an item of {} buffers", others.len())));
        }
        let both = stream.iter().chain(&others);
        let sources = both.map(Source::new).collect::<PyResult<Vec<_>>>()?;
        let item = Item::new(kind, &sources, stream.len());
        let until = Until::new(wait)?;
        let (mut grow, mut looked) = (until.is_over(), Instant::now());
        loop {
            let seen = self.seen(Side::Put)?;
            let Some(guard) = self.lock(py, Side::Put, until)? else { return Ok(false) };
            let time = match self.try_put(py, guard, &item, grow)? {
                None => return Ok(true),
                Some(Blocked::Room) => PATIENCE,
                Some(Blocked::Items) if until.is_over() => return Ok(false),
                Some(Blocked::Items) => until.left().map_or(SLICE, |left| left.min(SLICE)),
            };
            let begun = Instant::now();
            self.wait(py, &seen, time)?;
            grow = begun.elapsed() >= PATIENCE && !self.moved(&seen.0, seen.1) || until.is_over();
            if looked.elapsed() > LOOK {
                self.hear(py, Side::Put)?;
                looked = Instant::now();
            }
        }
    }

    /// Gets the next item: its kind, its first part and a list of the others. None where none came
    /// in time.
    fn get<'py>(
        &self,
        py: Python<'py>,
        wait: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let until = Until::new(wait)?;
        let (mut slept, mut looked) = (false, Instant::now());
        loop {
            let seen = self.seen(Side::Get)?;
            let Some(guard) = self.lock(py, Side::Get, until)? else { return Ok(None) };
            if let Some(item) = self.try_get(py, guard)? {
                if slept {
                    // Others may sleep too, and what is left is theirs.
                    let word = &self.shared.header().sleepers[Side::Get as usize].0;
                    word.store(1, Ordering::Relaxed);
                    if self.size()? > 0 {
                        self.wake(Side::Get);
                    }
                }
                return Ok(Some(item));
            }
            if until.is_over() {
                return Ok(None);
            }
            slept |= self.wait(py, &seen, until.left().unwrap_or(SLICE))?;
            if looked.elapsed() > LOOK {
                if self.size()? == 0 {
                    self.hear(py, Side::Get)?;
                }
                looked = Instant::now();
            }
        }
    }

    /// Items in the queue now.
    fn size(&self) -> PyResult<u32> {
        let (mapping, at) = self.mapped(Side::Put)?;
        let put = self.ring(&mapping, at)?;
        Ok((self.items(&put)? as i32).max(0) as u32)
    }

    /// The most items, or 0.
    fn most_items(&self) -> u32 {
        self.shared.header().most_items.load(Ordering::Relaxed)
    }

    /// Says that this process has the queue open: for a forked child.
    fn join_again(&self) {
        self.join();
    }

    /// Says that this process does not use the queue any more, and whether it failed.
    fn leave(&self, failed: bool) {
        if let Some(place) = own(&self.peer).take() {
            peers::leave(self.shared.header(), place, failed);
        }
    }
}

impl AsFd for QueueRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.file()
    }
}
