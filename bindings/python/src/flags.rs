//! Flags as a class of Python.

use crate::errors;
use crate::wait::{SLICE, Until};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use weir::{ErrorKind, Timeout};

/// 64 flags that processes share: set them, clear them, wait for them.
#[pyclass(frozen, module = "weir")]
pub struct Flags(weir::Flags);

#[pymethods]
impl Flags {
    /// New flags, or those of a file of this name. Forked children share them; others get them by
    /// pickling, or by the name.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> PyResult<Flags> {
        let made = path.map_or_else(weir::Flags::shared, weir::Flags::named);
        made.map(Flags).map_err(errors::of)
    }

    #[staticmethod]
    fn _received(fd: i32) -> PyResult<Flags> {
        let file: OwnedFd = crate::memory::duplicate(fd)
            .map_err(|cause| errors::os(format!("cannot open flags: {cause}"), &cause))?;
        weir::Flags::open(file).map(Flags).map_err(errors::of)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Flags>, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let fd = slf.get().0.memory_descriptor().map(|fd| fd.as_raw_fd());
        let given = py.import("multiprocessing.reduction")?.call_method1("DupFd", (fd,))?;
        let made = py.import("weir.handing")?.getattr("received")?;
        let arguments = (slf.get_type(), given).into_pyobject(py)?;
        PyTuple::new(py, [made, arguments.into_any()])
    }

    /// Sets flags, and wakes those who wait: the state before.
    fn set(&self, mask: u64) -> u64 {
        self.0.set(mask)
    }

    /// Clears flags: the state before.
    fn clear(&self, mask: u64) -> u64 {
        self.0.clear(mask)
    }

    /// The state.
    fn read(&self) -> u64 {
        self.0.read()
    }

    /// Waits until any flag of the mask is set, or all are: those that are. `clear` clears them in
    /// the same step.
    #[pyo3(signature = (mask, *, all=false, clear=false, timeout=None))]
    fn wait(
        &self,
        py: Python<'_>,
        mask: u64,
        all: bool,
        clear: bool,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let until = Until::new(timeout)?;
        loop {
            let time = Timeout::After(until.left().map_or(SLICE, |left| left.min(SLICE)));
            let found = py.detach(|| match (all, clear) {
                (false, false) => self.0.wait_any_timeout(mask, time),
                (true, false) => self.0.wait_all_timeout(mask, time),
                (false, true) => self.0.wait_and_clear_timeout(mask, time),
                (true, true) => self.0.wait_all_and_clear_timeout(mask, time),
            });
            match found {
                Err(error) if error.kind() == ErrorKind::TimedOut && !until.is_over() => {
                    py.check_signals()?;
                }
                other => return other.map_err(errors::of),
            }
        }
    }
}
