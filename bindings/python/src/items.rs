//! Objects as items of a queue, and back.
//!
//! Bytes lie in an item as they are, and [plain values](crate::plain) nearly so; an array of
//! numbers is its shape and its bytes. All else is pickled, by one pickler that is kept, and its
//! buffers follow it.

use crate::errors;
use crate::memory::{Fresh, Source};
use crate::plain::{self, Written};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyByteArray, PyBytes, PyDict, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};

/// What an item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pickle, and its buffers.
    Pickle = 1,
    /// The bytes of a `bytes`.
    Bytes = 2,
    /// Nothing, and the bytes of a `bytearray`.
    ByteArray = 3,
    /// The type and shape of an array, and its bytes.
    Array = 4,
    /// A plain value.
    Plain = 5,
}

impl Kind {
    /// The kind of a number that an item had.
    pub fn of(number: u32) -> Option<Kind> {
        use Kind::*;
        let all = [Pickle, Bytes, ByteArray, Array, Plain];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Buffers that are as long get blocks of memory of their own.
const BLOCK: usize = 1 << 20;
/// The most dimensions of an array.
const MOST_DIMENSIONS: usize = 8;
/// A pickler that has seen a longer stream is not kept: its memo does not shrink.
const LONG_STREAM: usize = 64 << 10;

/// An object on its way into a queue: what its parts are made of.
pub struct Item<'py> {
    /// What it is.
    pub kind: Kind,
    /// How its first part begins.
    start: Written,
    /// What follows in the first part.
    stream: SmallVec<[Source<'py>; 1]>,
    /// The other parts.
    pub buffers: SmallVec<[Source<'py>; 1]>,
}

impl<'py> Item<'py> {
    /// An object as an item.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
        let mut item = Item::new(Kind::Plain);
        if object.is_exact_instance_of::<PyBytes>() {
            item.kind = Kind::Bytes;
            item.stream.push(Source::new(object)?);
        } else if object.is_exact_instance_of::<PyByteArray>() {
            item.kind = Kind::ByteArray;
            item.buffers.push(Source::new(object)?);
        } else if !plain::write(object, &mut item.start) {
            item.start.clear();
            if !item.array(object)? {
                return pickled(object);
            }
        }
        Ok(item)
    }

    fn new(kind: Kind) -> Item<'py> {
        let (stream, buffers) = (SmallVec::new(), SmallVec::new());
        Item { kind, start: Written::new(), stream, buffers }
    }

    /// Makes this an array of numbers, if the object is one whose bytes are all there is to it.
    fn array(&mut self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        let py = object.py();
        static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
        let modules = MODULES.import(py, "sys", "modules")?;
        // Where numpy was not imported, nothing is an array.
        let is_array =
            modules.contains(intern!(py, "numpy"))? && { object.get_type().is(array_type(py)?) };
        if !is_array {
            return Ok(false);
        }
        // What has no plain view, such as text or a transposed array, is pickled.
        let Ok(view) = Source::array(object) else { return Ok(false) };
        let Some((code, shape)) = view.numbers().filter(|(_, s)| s.len() <= MOST_DIMENSIONS) else {
            return Ok(false);
        };
        self.kind = Kind::Array;
        self.start.extend_from_slice(&u64::from(code).to_le_bytes());
        for length in shape {
            self.start.extend_from_slice(&(*length as u64).to_ne_bytes());
        }
        self.buffers.push(view);
        Ok(true)
    }

    /// The pieces of the first part.
    fn first(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.start[..]).chain(self.stream.iter().map(Source::bytes))
    }

    /// The lengths of its parts.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        let first = self.first().map(<[u8]>::len).sum();
        std::iter::once(first).chain(self.buffers.iter().map(Source::len))
    }

    /// All its bytes, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.first().chain(self.buffers.iter().map(Source::bytes))
    }
}

/// The pickler that is kept, and what it writes to.
struct Pickler {
    dump: Py<PyAny>,
    clear_memo: Py<PyAny>,
    stream: Py<PyList>,
    buffers: Py<PyList>,
    /// Reducers that the pickler knows by a copy, and how many there were.
    registered: [(Py<PyDict>, usize); 2],
}

static KEPT: Mutex<Option<Pickler>> = Mutex::new(None);

impl Pickler {
    fn take(py: Python<'_>) -> PyResult<Pickler> {
        // Others may be pickling meanwhile, or an object may put something while it is pickled.
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_current = |pickler: &Pickler| {
            pickler.registered.iter().all(|(all, known)| all.bind(py).len() == *known)
        };
        if let Some(pickler) = kept.filter(is_current) {
            return Ok(pickler);
        }
        static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let made = MAKE.import(py, "weir.pickling", "make_pickler")?.call0()?;
        let (dump, clear_memo, stream, buffers, first, second) = made.extract()?;
        let counted = |all: Py<PyDict>| {
            let known = all.bind(py).len();
            (all, known)
        };
        let registered = [counted(first), counted(second)];
        Ok(Pickler { dump, clear_memo, stream, buffers, registered })
    }

    /// Pickles an object, and leaves what it wrote in the lists.
    fn dump<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
        let py = object.py();
        let mut item = Item::new(Kind::Pickle);
        self.dump.bind(py).call1((object,))?;
        for piece in self.stream.bind(py).iter() {
            item.stream.push(Source::new(&piece)?);
        }
        for buffer in self.buffers.bind(py).iter() {
            item.buffers.push(Source::new(&buffer.call_method0(intern!(py, "raw"))?)?);
        }
        Ok(item)
    }

    fn empty(&self, py: Python<'_>) -> PyResult<()> {
        self.clear_memo.bind(py).call0()?;
        for list in [&self.stream, &self.buffers] {
            let list = list.bind(py);
            list.del_slice(0, list.len())?;
        }
        Ok(())
    }
}

fn pickled<'py>(object: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
    let py = object.py();
    let pickler = Pickler::take(py)?;
    // After an error the pickler is dropped.
    let item = pickler.dump(object)?;
    if item.lengths().next().is_some_and(|bytes| bytes <= LONG_STREAM) {
        pickler.empty(py)?;
        let replaced = KEPT.lock().unwrap_or_else(PoisonError::into_inner).replace(pickler);
        drop(replaced);
    }
    Ok(item)
}

/// New memory for a part of an item.
pub fn part<'py>(py: Python<'py>, kind: Kind, number: usize, bytes: usize) -> PyResult<Fresh<'py>> {
    match number {
        0 => Fresh::bytes(py, bytes),
        _ if kind != Kind::ByteArray && bytes >= BLOCK => Fresh::block(py, bytes),
        _ => Fresh::bytearray(py, bytes),
    }
}

/// The object that an item of short parts was.
pub fn object_of<'py>(
    py: Python<'py>,
    kind: Kind,
    first: &[u8],
    others: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        Kind::Plain => plain::read(py, first)?.ok_or_else(nonsense),
        Kind::Array => array_of(py, first, others.into_iter().next().ok_or_else(nonsense)?),
        _ => object_of_parts(kind, PyBytes::new(py, first).into_any(), others),
    }
}

/// The object that an item was.
pub fn object_of_parts<'py>(
    kind: Kind,
    first: Bound<'py, PyAny>,
    others: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = first.py();
    match kind {
        Kind::Bytes => Ok(first),
        Kind::ByteArray => others.into_iter().next().ok_or_else(nonsense),
        Kind::Pickle => {
            static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let loads = LOADS.import(py, "pickle", "loads")?;
            if others.is_empty() {
                return loads.call1((first,));
            }
            let buffers = [("buffers", PyList::new(py, others)?)].into_py_dict(py)?;
            loads.call((first,), Some(&buffers))
        }
        _ => {
            let first = first.cast_into::<PyBytes>()?;
            object_of(py, kind, first.as_bytes(), others)
        }
    }
}

/// An array over its bytes.
fn array_of<'py>(
    py: Python<'py>,
    head: &[u8],
    data: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (words, rest) = head.as_chunks::<8>();
    let [[code, ..], shape @ ..] = words else { return Err(nonsense()) };
    if !rest.is_empty() || shape.len() > MOST_DIMENSIONS {
        return Err(nonsense());
    }
    let shape = PyTuple::new(py, shape.iter().map(|length| u64::from_ne_bytes(*length)))?;
    let code = std::str::from_utf8(std::slice::from_ref(code)).map_err(|_| nonsense())?;
    array_type(py)?.call1((shape, code, data))
}

fn array_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    ARRAY.import(py, "numpy", "ndarray")
}

fn nonsense() -> PyErr {
    errors::corrupt("cannot use the queue: it has an item that is no object".into())
}
