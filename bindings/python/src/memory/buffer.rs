//! Bytes of Python's objects: those that are read, and new ones that are filled.

use super::raw::RawBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// A plain row of bytes.
const SIMPLE: c_int = 0;
/// A plain row of bytes that may be written.
const WRITABLE: c_int = 1;

/// Bytes of an object of Python, held while they are copied.
pub struct Source<'py>(Held<'py>);

enum Held<'py> {
    Bytes(Bound<'py, PyBytes>),
    // Boxed: a view may point into itself.
    View(Box<RawBuffer>),
}

impl<'py> Source<'py> {
    /// Holds the bytes of an object that has the buffer protocol.
    pub fn new(object: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(Source(Held::Bytes(bytes.clone())));
        }
        Source::view(object, SIMPLE)
    }

    /// Holds the bytes of an object to be written.
    pub fn writable(object: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
        Source::view(object, WRITABLE)
    }

    fn view(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Source<'py>> {
        // SAFETY: all zeros are a `RawBuffer` that holds nothing.
        let mut view: Box<RawBuffer> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: the object lives, this thread is attached, and the view is filled or untouched.
        match unsafe { PyObject_GetBuffer(object.as_ptr(), &mut *view, flags) } {
            0 => Ok(Source(Held::View(view))),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        match &self.0 {
            Held::Bytes(bytes) => bytes.as_bytes().len(),
            Held::View(view) => view.len as usize,
        }
    }

    /// The bytes. See [the module](super) for who may write them meanwhile.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Held::Bytes(bytes) => bytes.as_bytes(),
            Held::View(view) if view.len == 0 => &[],
            // SAFETY: the view holds so many bytes until it is released. They are only copied.
            Held::View(view) => unsafe {
                std::slice::from_raw_parts(view.buf.cast(), view.len as usize)
            },
        }
    }

    /// The bytes of a writable view.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Held::View(view) if view.len > 0 && view.readonly == 0 => {
                // SAFETY: as for `bytes`, and the exporter lets them be written.
                unsafe { std::slice::from_raw_parts_mut(view.buf.cast(), view.len as usize) }
            }
            _ => &mut [],
        }
    }
}

// SAFETY: a thread that has detached only reads and writes bytes that the view holds; the view is
// made and released attached (`Drop` runs where the value was made).
unsafe impl Sync for Source<'_> {}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        if let Held::View(view) = &mut self.0 {
            // SAFETY: filled by `PyObject_GetBuffer`, and released once; `'py` says that this
            // thread is attached.
            unsafe { PyBuffer_Release(&mut **view) };
        }
    }
}

/// A new object of Python whose bytes are not written yet, and which nobody else has.
pub struct Fresh<'py> {
    object: Bound<'py, PyAny>,
    start: *mut u8,
    bytes: usize,
}

impl<'py> Fresh<'py> {
    /// A new `bytes`.
    pub fn bytes(py: Python<'py>, bytes: usize) -> PyResult<Fresh<'py>> {
        // SAFETY: without a source the object is made with bytes that are not set.
        let made = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), bytes as isize) };
        // SAFETY: a new reference, or null with an exception set.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
        // SAFETY: the object is a `bytes`, just made.
        let start = unsafe { ffi::PyBytes_AsString(object.as_ptr()) }.cast();
        Ok(Fresh { object, start, bytes })
    }

    /// A new `bytearray`.
    pub fn bytearray(py: Python<'py>, bytes: usize) -> PyResult<Fresh<'py>> {
        // SAFETY: without a source the object is made with bytes that are not set.
        let made = unsafe { ffi::PyByteArray_FromStringAndSize(std::ptr::null(), bytes as isize) };
        // SAFETY: a new reference, or null with an exception set.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
        // SAFETY: the object is a `bytearray`, just made.
        let start = unsafe { ffi::PyByteArray_AsString(object.as_ptr()) }.cast();
        Ok(Fresh { object, start, bytes })
    }

    /// A block for a long array.
    pub fn block(py: Python<'py>, bytes: usize) -> PyResult<Fresh<'py>> {
        let (object, start) = super::loan::block(py, bytes)?;
        Ok(Fresh { object, start, bytes })
    }

    /// The bytes that are to be filled, as long as the value was not handed out.
    pub fn fill(&mut self) -> &mut [u8] {
        // SAFETY: the object has so many bytes and nobody else has it. What is not set may be
        // anything that `malloc` gave: it is written before it is read.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// The object, once its bytes are filled.
    pub fn object(self) -> Bound<'py, PyAny> {
        self.object
    }
}

// SAFETY: a thread that has detached only writes the bytes, which nobody else has yet.
unsafe impl Send for Fresh<'_> {}
