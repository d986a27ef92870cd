//! A class of Python that exports memory: what a reader lends, or a block of its own.
//!
//! The stable ABI has the buffer protocol since 3.11. The slots are the same before, so the class
//! is made by hand.

use super::blocks;
use super::raw::RawBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{CStr, c_int, c_uint, c_void};

unsafe extern "C" {
    fn PyBuffer_FillInfo(
        view: *mut RawBuffer,
        exporter: *mut ffi::PyObject,
        start: *mut c_void,
        bytes: isize,
        readonly: c_int,
        flags: c_int,
    ) -> c_int;
}

const NAME: &CStr = c"weir._weir.Memory";

/// An object of the class.
#[repr(C)]
struct LoanObject {
    base: ffi::PyObject,
    start: *mut c_void,
    bytes: isize,
    /// Views that are not released.
    exports: isize,
    /// Whose memory it is; null if it is a block of its own.
    reader: *mut ffi::PyObject,
}

/// The one who lends: it takes back what nobody has any more.
pub struct Lender(Py<PyAny>);

impl Lender {
    /// The object that exports the memory.
    pub fn object<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.0.bind(py)
    }

    /// Takes the memory back: false where somebody still has a view of it. From then on the object
    /// exports nothing.
    pub fn take_back(&self, py: Python<'_>) -> bool {
        let object = self.0.bind(py).as_ptr().cast::<LoanObject>();
        // SAFETY: an object of this class, and this thread is attached: no other uses its fields.
        let object = unsafe { &mut *object };
        if object.exports > 0 {
            return false;
        }
        object.start = std::ptr::null_mut();
        true
    }
}

/// Lends the record that a reader reads in place, to be read only. The reader must neither receive
/// nor consume before [`Lender::take_back`] was true; it lives as long as the loan.
pub fn lend_record(
    py: Python<'_>,
    reader: &Bound<'_, PyAny>,
    view: &weir::View<'_>,
) -> PyResult<Lender> {
    // SAFETY: nobody of this process writes a record before it is consumed. A peer that breaks the
    // rules can: Python then reads other bytes, and any bytes are a value.
    let memory = unsafe { view.as_slice() };
    let object = exporter(py)?;
    let fields = object.as_ptr().cast::<LoanObject>();
    // SAFETY: as large as the class says, and nobody else has it yet.
    let fields = unsafe { &mut *fields };
    fields.start = memory.as_ptr().cast_mut().cast();
    fields.bytes = memory.len() as isize;
    fields.reader = reader.clone().unbind().into_ptr();
    Ok(Lender(object.unbind()))
}

/// An object that exports a block of memory of its own, which may be written. Its bytes are
/// whatever was there; the caller fills them before anybody else has the object.
pub fn block(py: Python<'_>, bytes: usize) -> PyResult<(Bound<'_, PyAny>, *mut u8)> {
    let object = exporter(py)?;
    let start = blocks::take(bytes);
    if start.is_null() {
        return Err(pyo3::exceptions::PyMemoryError::new_err(()));
    }
    let fields = object.as_ptr().cast::<LoanObject>();
    // SAFETY: as large as the class says, and nobody else has it yet.
    let fields = unsafe { &mut *fields };
    fields.start = start.cast();
    fields.bytes = bytes as isize;
    Ok((object, start))
}

/// A new object of the class, with zeros for its fields.
fn exporter(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || class(py))?;
    // SAFETY: the class was made by `class`, and this thread is attached.
    let made = unsafe { ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

fn class(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_bf_getbuffer, get_buffer as *mut c_void),
        slot(ffi::Py_bf_releasebuffer, release_buffer as *mut c_void),
        slot(ffi::Py_tp_dealloc, deallocate as *mut c_void),
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: NAME.as_ptr(),
        basicsize: size_of::<LoanObject>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots have the types that their numbers say, and end with an empty one; Python
    // copies them. The name is static.
    let made = unsafe { ffi::PyType_FromSpec(&mut spec) };
    // SAFETY: a new reference, or null with an exception set.
    Ok(unsafe { Bound::from_owned_ptr_or_err(py, made) }?.unbind())
}

/// # Safety
/// Python calls it, attached, with an object of the class and a view to fill.
unsafe extern "C" fn get_buffer(
    object: *mut ffi::PyObject,
    view: *mut RawBuffer,
    flags: c_int,
) -> c_int {
    // SAFETY: Python calls this attached, with an object of the class.
    let loan = unsafe { &mut *object.cast::<LoanObject>() };
    if loan.start.is_null() {
        // SAFETY: Python's view to fill; without an object it holds nothing.
        unsafe { (*view).obj = std::ptr::null_mut() };
        let why = c"the loan is over: its memory was given back";
        // SAFETY: a class that is static, and set since Python began.
        let class = unsafe { ffi::PyExc_BufferError };
        // SAFETY: attached, with a class and a string.
        unsafe { ffi::PyErr_SetString(class, why.as_ptr()) };
        return -1;
    }
    // What a reader lends is read only; a block is its owner's.
    let read_only = c_int::from(!loan.reader.is_null());
    // SAFETY: Python's view to fill; the object takes a reference to itself.
    let filled =
        unsafe { PyBuffer_FillInfo(view, object, loan.start, loan.bytes, read_only, flags) };
    if filled == 0 {
        loan.exports += 1;
    }
    filled
}

/// # Safety
/// Python calls it, attached, once for each view that was filled.
unsafe extern "C" fn release_buffer(object: *mut ffi::PyObject, _: *mut RawBuffer) {
    // SAFETY: Python calls this attached, once for each view that `get_buffer` has filled.
    unsafe { (*object.cast::<LoanObject>()).exports -= 1 };
}

/// # Safety
/// Python calls it, attached, with an object that nobody has any more.
unsafe extern "C" fn deallocate(object: *mut ffi::PyObject) {
    // SAFETY: an object of the class, which nobody has any more.
    let loan = unsafe { &*object.cast::<LoanObject>() };
    if !loan.reader.is_null() {
        // SAFETY: a reference of this object.
        unsafe { ffi::Py_DECREF(loan.reader) };
    } else if !loan.start.is_null() {
        blocks::give_back(loan.start.cast(), loan.bytes as usize);
    }
    // SAFETY: attached; the object is of a class on the heap.
    let class = unsafe { ffi::Py_TYPE(object) };
    // SAFETY: every class has this slot.
    let free = unsafe { ffi::PyType_GetSlot(class, ffi::Py_tp_free) };
    // SAFETY: the slot is of this type.
    let free: ffi::freefunc = unsafe { std::mem::transmute(free) };
    // SAFETY: nobody has the object any more.
    unsafe { free(object.cast()) };
    // SAFETY: each object of a class on the heap holds a reference to it.
    unsafe { ffi::Py_DECREF(class.cast()) };
}
