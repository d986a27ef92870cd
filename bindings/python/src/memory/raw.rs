//! A view of a buffer, as Python lays it out.

use pyo3::ffi;
use std::ffi::{c_char, c_int, c_void};

/// `Py_buffer`. The stable ABI has it since 3.11; it is the same in 3.9 and 3.10.
#[repr(C)]
pub struct RawBuffer {
    pub buf: *mut c_void,
    pub obj: *mut ffi::PyObject,
    pub len: isize,
    pub itemsize: isize,
    pub readonly: c_int,
    pub ndim: c_int,
    pub format: *mut c_char,
    pub shape: *mut isize,
    pub strides: *mut isize,
    pub suboffsets: *mut isize,
    pub internal: *mut c_void,
}
