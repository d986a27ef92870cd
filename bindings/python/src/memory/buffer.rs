//! Bytes of Python's objects: those that are read, and new ones that are filled.

use super::raw::RawBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
    // In the stable ABI since 3.10, and the same in 3.9.
    fn PyUnicode_AsUTF8AndSize(text: *mut ffi::PyObject, bytes: *mut isize) -> *const c_char;
}

/// The text of a `str` in UTF-8, which the object keeps; `None` if it has none.
pub fn text_of<'a>(object: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    let mut bytes = 0;
    // SAFETY: this thread is attached; of another object than a `str` it makes an error.
    let start = unsafe { PyUnicode_AsUTF8AndSize(object.as_ptr(), &mut bytes) };
    if start.is_null() {
        drop(PyErr::take(object.py()));
        return None;
    }
    // SAFETY: the object holds so many bytes as long as it lives, and never changes them.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), bytes as usize) })
}

/// A plain row of bytes.
const SIMPLE: c_int = 0;
/// A plain row of bytes that may be written.
const WRITABLE: c_int = 1;

/// A row of items that lie one after another, with their format and the lengths of all dimensions.
const ARRAY: c_int = 0x8 | 0x4;

/// The references to an object, or any larger number.
pub fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: the object lives, and this thread is attached.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) as isize }
}

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

    /// Holds the bytes of an array that lies in one piece.
    pub fn array(object: &Bound<'py, PyAny>) -> PyResult<Source<'py>> {
        Source::view(object, ARRAY)
    }

    /// What [`Source::array`] found: numpy's letter for the numbers, and the lengths of all
    /// dimensions; `None` if they are no plain numbers or may not be written.
    pub fn numbers(&self) -> Option<(u8, &[isize])> {
        let Held::View(view) = &self.0 else { return None };
        if view.readonly != 0 || view.format.is_null() {
            return None;
        }
        // SAFETY: a string that lives as long as the view.
        let code = match unsafe { CStr::from_ptr(view.format) }.to_bytes() {
            [code] if b"?bBhHiIlLqQefdg".contains(code) => *code,
            b"Zf" => b'F',
            b"Zd" => b'D',
            b"Zg" => b'G',
            _ => return None,
        };
        if view.ndim == 0 {
            return Some((code, &[]));
        }
        if view.shape.is_null() {
            return None;
        }
        // SAFETY: as many lengths as dimensions, and they live as long as the view.
        let shape = unsafe { std::slice::from_raw_parts(view.shape, view.ndim as usize) };
        Some((code, shape))
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
