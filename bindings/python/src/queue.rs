//! The ring under `weir.Queue`: many processes put, many get.
//!
//! One lock is for those who put, and one for those who get. Each change under a lock is one store
//! to the place of its side, so whoever is killed leaves a sound queue: what it was putting is not
//! there, and what it was getting stays. A ring that is full and that nobody empties is followed
//! by a larger one.

use crate::errors;
use crate::items::{self, Item, Kind};
use crate::memory::{Fresh, Guard, PAGE_BYTES, RingWords, Shared, Side};
use crate::peers::{self, Gone};
use crate::wait::{SLICE, Until};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
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
/// A ring that is full gets a larger successor when nobody has got anything for so long, and for a
/// nanosecond for each byte: about what it takes to make the larger one.
const PATIENCE: Duration = Duration::from_millis(10);
/// How often one who waits looks for processes that died.
const LOOK: Duration = Duration::from_millis(200);
/// A ring that is as long is entered into the tables of pages as a whole.
const LONG_RING: u64 = 4 << 20;
/// A ring that is enlarged for an item that is not longer has room for several.
const FEW_BYTES: u64 = 4 << 20;
/// Items that are longer are copied while other threads of Python run.
const LONG: usize = 64 << 10;
/// Items that are not longer are copied to the stack and made objects without the lock.
const SHORT: usize = 512;
/// No place among the peers.
const NO_PEER: usize = usize::MAX;
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
#[pyclass(frozen, generic, subclass, module = "weir._weir")]
pub struct QueueRing {
    shared: Shared,
    /// All that is mapped of the rings. It is replaced when there are more.
    rings: Mutex<Arc<Mapping>>,
    /// The place of this process among the peers, or `NO_PEER`.
    peer: AtomicUsize,
    /// This process uses the queue no more.
    closed: AtomicBool,
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
        let (peer, closed) = (AtomicUsize::new(NO_PEER), AtomicBool::new(false));
        let queue = QueueRing { shared, rings, peer, closed, told: Mutex::default(), spin_ns };
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
        let ring = self.ring(&mapping, at)?;
        if ring.bytes >= LONG_RING {
            Shared::populate(&mapping, at, ring.bytes);
        }
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
        item: &Item<'_>,
        bytes: u64,
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
        if ring.bytes - ring.used().min(ring.bytes) < bytes {
            if bytes <= ring.bytes && !grow {
                return Ok(Some(Blocked::Room));
            }
            at = self.enlarge(py, &ring, bytes)?;
            mapping = self.mapping();
            ring = self.ring(&mapping, at)?;
        }
        copy_in(py, &mapping, &ring, item, bytes);
        let place = ring.place(Side::Put);
        ring.words.places[Side::Put as usize].0.store(place.after(bytes), Ordering::Release);
        self.count(Side::Put);
        drop(guard);
        self.wake(Side::Get);
        Ok(None)
    }

    /// Adds a ring that has room for an item and is longer than the last, so that it is not full as
    /// soon: where it is. The caller holds the lock of those who put.
    fn enlarge(&self, py: Python<'_>, ring: &Ring<'_>, item_bytes: u64) -> PyResult<u64> {
        // Several, so that the two sides need not wait for each other at each of them.
        let several = if item_bytes <= FEW_BYTES { 7 } else { 2 };
        let bytes = (item_bytes * several).max(ring.bytes * 2).next_power_of_two();
        if bytes > MOST_RING {
            let why = format!("an item of {item_bytes} bytes does not fit");
            return Err(errors::invalid(why));
        }
        let items = ring.place(Side::Put).items;
        let (next, mapped) = py.detach(|| self.shared.add_ring(bytes, items)).map_err(|cause| {
            let text = format!("cannot enlarge the queue to {bytes} bytes: {cause}");
            errors::os(text, &cause)
        })?;
        *own(&self.rings) = Arc::new(mapped);
        ring.words.next.store(next, Ordering::Release);
        self.shared.header().rings[Side::Put as usize].0.store(next, Ordering::Release);
        Ok(next)
    }

    /// Puts an item: false where there was no room in time.
    fn wait_and_put(
        &self,
        py: Python<'_>,
        item: &Item<'_>,
        bytes: u64,
        until: Until,
    ) -> PyResult<bool> {
        let (mut grow, mut looked) = (until.is_over(), Instant::now());
        let (mut slept, mut still_since) = (false, looked);
        loop {
            let seen = self.seen(Side::Put)?;
            let Some(guard) = self.lock(py, Side::Put, until)? else { return Ok(false) };
            slept |= match self.try_put(py, guard, item, bytes, grow)? {
                None => break,
                Some(Blocked::Room) => {
                    self.wait(py, Side::Put, PATIENCE, || self.has_room(&seen.0, seen.1, bytes))?
                }
                Some(Blocked::Items) if until.is_over() => return Ok(false),
                Some(Blocked::Items) => {
                    let time = until.left().unwrap_or(SLICE);
                    self.wait(py, Side::Put, time, || self.moved(&seen.0, seen.1))?
                }
            };
            if self.moved(&seen.0, seen.1) || self.shared.try_lock(Side::Get)?.is_none() {
                // One who holds the lock is getting something.
                still_since = Instant::now();
            }
            let patience = PATIENCE.max(Duration::from_nanos(self.ring(&seen.0, seen.1.1)?.bytes));
            grow = still_since.elapsed() >= patience || until.is_over();
            if looked.elapsed() > LOOK {
                self.report_deaths(py, Side::Put)?;
                looked = Instant::now();
            }
        }
        if slept {
            // Others may sleep too. If there is no room for them, the next one who gets wakes one.
            self.expect_sleepers(Side::Put);
            let (mapping, seen) = self.seen(Side::Put)?;
            if self.has_room(&mapping, seen, bytes) {
                self.wake(Side::Put);
            }
        }
        Ok(true)
    }

    /// Gets the next object: None where none came in time.
    fn wait_and_get<'py>(
        &self,
        py: Python<'py>,
        until: Until,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (mut slept, mut looked) = (false, Instant::now());
        loop {
            let seen = self.seen(Side::Get)?;
            let Some(guard) = self.lock(py, Side::Get, until)? else { return Ok(None) };
            if let Some(item) = self.try_get(py, guard)? {
                if slept {
                    // Others may sleep too, and what is left is theirs.
                    self.expect_sleepers(Side::Get);
                    if self.size()? > 0 {
                        self.wake(Side::Get);
                    }
                }
                return Ok(Some(item));
            }
            if until.is_over() {
                return Ok(None);
            }
            let time = until.left().unwrap_or(SLICE);
            slept |= self.wait(py, Side::Get, time, || self.moved(&seen.0, seen.1))?;
            if looked.elapsed() > LOOK {
                if self.size()? == 0 {
                    self.report_deaths(py, Side::Get)?;
                }
                looked = Instant::now();
            }
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
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
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
        let head = Head::read(&mapping, &ring)?;
        // No object that the collector of garbage knows is made under the lock: it may run
        // anything, such as a finalizer that uses this queue.
        let mut short = [0; SHORT];
        if let Some(body) = short.get_mut(..head.body_bytes()) {
            Shared::copy_out(&mapping, ring.area(), ring.position(Side::Get) + HEAD as u64, body);
            self.took(guard, &ring, head.bytes);
            return head.object(py, body).map(Some);
        }
        let mut parts = head.parts(py, &mapping, &ring)?;
        let table = (HEAD + 8 * head.count) as u64;
        let mut position = ring.position(Side::Get) + table;
        py.detach(|| {
            for part in &mut parts {
                let to = part.fill();
                Shared::copy_out(&mapping, ring.area(), position, to);
                position += to.len() as u64;
            }
        });
        self.took(guard, &ring, head.bytes);
        let mut parts = parts.into_iter().map(Fresh::object);
        let first = parts.next().ok_or_else(|| corrupt("it has an item of no parts"))?;
        items::object_of_parts(head.kind, first, parts.collect()).map(Some)
    }

    /// Moves on behind an item that was copied, and lets go.
    fn took(&self, guard: Guard<'_>, ring: &Ring<'_>, bytes: u64) {
        self.count(Side::Get);
        let place = ring.place(Side::Get);
        ring.words.places[Side::Get as usize].0.store(place.after(bytes), Ordering::Release);
        let room = ring.used() <= ring.bytes / 4 * 3;
        drop(guard);
        if room || self.shared.header().most_items.load(Ordering::Relaxed) > 0 {
            self.wake(Side::Put);
        }
    }

    fn count(&self, side: Side) {
        let place = self.peer.load(Ordering::Relaxed);
        let Some(peer) = self.shared.header().peers.get(place) else { return };
        let count = if side == Side::Put { &peer.put } else { &peer.got };
        // Under the lock of the side: no other thread of this process counts now.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
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

    /// Whether one who puts finds room for an item, and for some more: waking costs more than an
    /// item.
    fn has_room(&self, mapping: &Mapping, (_, at, _): (Side, u64, u64), bytes: u64) -> bool {
        let Ok(ring) = self.ring(mapping, at) else { return true };
        let is_last = self.shared.header().rings[Side::Put as usize].0.load(Ordering::Acquire)
            == at
            && ring.words.next.load(Ordering::Acquire) == 0;
        !is_last || ring.used() <= ring.bytes - bytes.max(ring.bytes / 4).min(ring.bytes)
    }

    /// Has the next one who moves the other side look for one of this side to wake.
    fn expect_sleepers(&self, side: Side) {
        self.shared.header().sleepers[side as usize].0.store(1, Ordering::Relaxed);
    }

    /// Waits until something is so that the other side brings about, at most so long: whether it
    /// slept.
    fn wait(
        &self,
        py: Python<'_>,
        side: Side,
        time: Duration,
        done: impl Fn() -> bool + Sync,
    ) -> PyResult<bool> {
        let word = &self.shared.header().sleepers[side as usize].0;
        let slept = py.detach(|| {
            if self.spin(time, &done) {
                return false;
            }
            self.expect_sleepers(side);
            fence(Ordering::SeqCst);
            if done() {
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
    fn report_deaths(&self, py: Python<'_>, side: Side) -> PyResult<()> {
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
        let place = peers::join(self.shared.header());
        self.peer.store(place.unwrap_or(NO_PEER), Ordering::Relaxed);
    }
}

fn check_open(queue: &Bound<'_, QueueRing>) -> PyResult<()> {
    if queue.get().closed() {
        let text = format!("Queue {} is closed", queue.repr()?);
        return Err(PyValueError::new_err(text));
    }
    Ok(())
}

const MOST_SPIN_NS: u32 = 50_000;
const LEAST_SPIN_NS: u32 = 2_000;

fn corrupt(why: &str) -> PyErr {
    errors::corrupt(format!("cannot use the queue: {why}"))
}

/// The bytes of an item in a ring.
fn bytes_in_ring(item: &Item<'_>) -> u64 {
    item.lengths().fold(HEAD as u64, |sum, bytes| sum + 8 + bytes as u64).next_multiple_of(UNIT)
}

/// Copies an item to where the next one is put.
fn copy_in(py: Python<'_>, mapping: &Mapping, ring: &Ring<'_>, item: &Item<'_>, bytes: u64) {
    let mut position = ring.position(Side::Put);
    let mut copy = |from: &[u8]| {
        Shared::copy_in(mapping, ring.area(), position, from);
        position += from.len() as u64;
    };
    let count = 1 + item.buffers.len() as u32;
    let words = u64::from(count) << 32 | u64::from(item.kind as u32);
    copy(&bytes.to_ne_bytes());
    copy(&words.to_ne_bytes());
    item.lengths().for_each(|bytes| copy(&(bytes as u64).to_ne_bytes()));
    if bytes > LONG as u64 {
        py.detach(|| item.pieces().for_each(copy));
    } else {
        item.pieces().for_each(copy);
    }
}

/// What stands before an item.
struct Head {
    kind: Kind,
    /// The bytes of the item in the ring.
    bytes: u64,
    /// The number of its parts.
    count: usize,
}

impl Head {
    /// That of the next item.
    fn read(mapping: &Mapping, ring: &Ring<'_>) -> PyResult<Head> {
        let mut head = [0; HEAD];
        Shared::copy_out(mapping, ring.area(), ring.position(Side::Get), &mut head);
        let [bytes, words] = [0, 8].map(|at| word(&head, at));
        let count = (words >> 32) as usize;
        let sound = bytes <= ring.used()
            && bytes.is_multiple_of(UNIT)
            && (HEAD + 8 * count) as u64 <= bytes
            && (1..=MOST_PARTS).contains(&count);
        let kind = Kind::of(words as u32).filter(|_| sound);
        let kind = kind.ok_or_else(|| corrupt("it has an item of no sound length"))?;
        Ok(Head { kind, bytes, count })
    }

    fn body_bytes(&self) -> usize {
        self.bytes as usize - HEAD
    }

    /// The lengths of the parts, from the table of them; their sum is not longer than the item.
    fn lengths(&self, table: &[u8]) -> PyResult<impl Iterator<Item = usize> + Clone> {
        let lengths = (0..self.count).map(move |number| word(table, 8 * number) as usize);
        let begin = 8 * self.count;
        match lengths.clone().try_fold(begin, |sum, bytes| sum.checked_add(bytes)) {
            Some(sum) if sum <= self.body_bytes() => Ok(lengths),
            _ => Err(corrupt("it has an item longer than itself")),
        }
    }

    /// The object of a short item, which was copied.
    fn object<'py>(&self, py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let mut rest = &body[8 * self.count..];
        let mut parts = self.lengths(body)?.map(|bytes| {
            let (part, after) = rest.split_at(bytes);
            rest = after;
            part
        });
        let first = parts.next().unwrap_or_default();
        let others = parts.map(|part| PyByteArray::new(py, part).into_any()).collect();
        items::object_of(py, self.kind, first, others)
    }

    /// Memory for the parts.
    fn parts<'py>(
        &self,
        py: Python<'py>,
        mapping: &Mapping,
        ring: &Ring<'_>,
    ) -> PyResult<Vec<Fresh<'py>>> {
        let mut table = vec![0; 8 * self.count];
        let at = ring.position(Side::Get) + HEAD as u64;
        Shared::copy_out(mapping, ring.area(), at, &mut table);
        let lengths = self.lengths(&table)?.enumerate();
        lengths.map(|(number, bytes)| items::part(py, self.kind, number, bytes)).collect()
    }
}

/// The word at a place among bytes.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

#[pymethods]
impl QueueRing {
    /// Makes the memory of a queue, or opens that behind a descriptor, of which it takes a copy.
    #[new]
    #[pyo3(signature = (maxsize = 0, *, size_bytes = 1 << 20, _fd = None))]
    fn new(maxsize: i64, size_bytes: u64, _fd: Option<i32>) -> PyResult<QueueRing> {
        if let Some(fd) = _fd {
            let failed = |cause: std::io::Error| {
                let text = format!("cannot open the queue behind descriptor {fd}: {cause}");
                errors::os(text, &cause)
            };
            let file = crate::memory::duplicate(fd).map_err(failed)?;
            return QueueRing::over(Shared::open(file).map_err(failed)?);
        }
        if size_bytes > MOST_RING {
            return Err(errors::invalid(format!("a queue of {size_bytes} bytes is too large")));
        }
        // A size that is not positive, or beyond what is counted, is no bound.
        let most_items = i32::try_from(maxsize).unwrap_or(0).max(0) as u32;
        let bytes = size_bytes.max(LEAST_RING).next_power_of_two();
        let shared = Shared::make(most_items, bytes)
            .map_err(|cause| errors::os(format!("cannot make a queue: {cause}"), &cause))?;
        QueueRing::over(shared)
    }

    /// The descriptor of the memory.
    #[pyo3(name = "_fileno")]
    fn fileno(&self) -> i32 {
        self.shared.file().as_raw_fd()
    }

    /// Puts an object. Waits for room if there are `maxsize` items; else it never waits long.
    ///
    /// Raises :class:`Full` if there was no room in time.
    #[pyo3(signature = (obj, block = true, timeout = None))]
    fn put(
        slf: &Bound<'_, Self>,
        obj: &Bound<'_, PyAny>,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let (this, py) = (slf.get(), slf.py());
        check_open(slf)?;
        let item = Item::of(obj)?;
        if item.buffers.len() >= MOST_PARTS {
            return Err(errors::invalid(format!("an item of {} buffers", item.buffers.len())));
        }
        let bytes = bytes_in_ring(&item);
        if let Some(guard) = this.shared.try_lock(Side::Put)?
            && this.try_put(py, guard, &item, bytes, false)?.is_none()
        {
            return Ok(());
        }
        let wait = if block { timeout } else { Some(0.0) };
        match this.wait_and_put(py, &item, bytes, Until::new(wait)?)? {
            true => Ok(()),
            false => Err(errors::Full::new_err(())),
        }
    }

    /// Gets the next object, and waits for it.
    ///
    /// Raises :class:`Empty` if none came in time.
    #[pyo3(signature = (block = true, timeout = None))]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (this, py) = (slf.get(), slf.py());
        check_open(slf)?;
        if let Some(guard) = this.shared.try_lock(Side::Get)?
            && let Some(object) = this.try_get(py, guard)?
        {
            return Ok(object);
        }
        let wait = if block { timeout } else { Some(0.0) };
        let found = this.wait_and_get(py, Until::new(wait)?)?;
        found.ok_or_else(|| errors::Empty::new_err(()))
    }

    /// The number of objects in the queue now.
    #[pyo3(name = "qsize")]
    fn size(&self) -> PyResult<u32> {
        let (mapping, at) = self.mapped(Side::Put)?;
        let put = self.ring(&mapping, at)?;
        Ok((self.items(&put)? as i32).max(0) as u32)
    }

    /// The most items, or 0.
    #[pyo3(name = "_most_items")]
    fn most_items(&self) -> u32 {
        self.shared.header().most_items.load(Ordering::Relaxed)
    }

    /// Says that this process has the queue open: for a forked child.
    #[pyo3(name = "_join_again")]
    fn join_again(&self) {
        if !self.closed() {
            self.join();
        }
    }

    /// Says that this process does not use the queue any more, and whether it failed.
    #[pyo3(name = "_leave")]
    fn leave(&self, failed: bool) {
        let place = self.peer.swap(NO_PEER, Ordering::Relaxed);
        if place != NO_PEER {
            peers::leave(self.shared.header(), place, failed);
        }
    }

    /// Says that this process neither puts nor gets any more. Its end is then no death.
    ///
    /// What it has put stays in the queue.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.leave(false);
    }

    /// Whether this process has closed the queue.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

impl AsFd for QueueRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.file()
    }
}
