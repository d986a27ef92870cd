//! Pipes, records and ports as classes of Python.
//!
//! An end is opened where it is first used. Until then it is a handle, which forked children
//! inherit and which can be pickled for others.

use crate::errors;
use crate::memory::{Fresh, Lender, Source, lend_record};
use crate::wait::{SLICE, Until};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use weir::{ErrorKind, Timeout};
use weir::{Event, Handle, Options, Port, PortOptions, PortWriter, PortWriterOptions};

/// What an object of Python has of an end.
enum State<E> {
    /// It was not used yet: the descriptors of its handle.
    Apart(OwnedFd, OwnedFd),
    Open(E),
    Closed,
}

/// An end that one thread at a time uses.
struct Slot<E>(Mutex<State<E>>);

impl<E> Slot<E> {
    fn new(state: State<E>) -> Slot<E> {
        Slot(Mutex::new(state))
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, State<E>>> {
        let why = "cannot use the end: another thread is using it";
        self.0.try_lock().map_err(|_| errors::invalid(why.into()))
    }

    /// Closes the end. Closing it again does nothing.
    fn close(&self) -> PyResult<()> {
        *self.lock()? = State::Closed;
        Ok(())
    }
}

impl<E> State<E> {
    /// The end, opened by `open` if it was not.
    fn end(&mut self, open: impl FnOnce(OwnedFd, OwnedFd) -> weir::Result<E>) -> PyResult<&mut E> {
        if let State::Apart(..) = self
            && let State::Apart(memory, socket) = std::mem::replace(self, State::Closed)
        {
            *self = State::Open(open(memory, socket).map_err(errors::of)?);
        }
        match self {
            State::Open(end) => Ok(end),
            _ => Err(errors::closed_here()),
        }
    }

    /// The descriptors of its handle, of which another process gets copies.
    fn descriptors(&self) -> PyResult<(i32, i32)> {
        match self {
            State::Apart(memory, socket) => Ok((memory.as_raw_fd(), socket.as_raw_fd())),
            State::Open(_) => {
                Err(errors::invalid("cannot hand on the end: it was used here".into()))
            }
            State::Closed => Err(errors::closed_here()),
        }
    }

    fn apart(handle: Handle) -> State<E> {
        let (memory, socket) = handle.into_descriptors();
        State::Apart(memory, socket)
    }
}

/// Calls again and again, each time for a slice of the time, until it is over: so that signals are
/// heard.
fn in_slices<T>(
    py: Python<'_>,
    seconds: Option<f64>,
    mut call: impl FnMut(Timeout) -> weir::Result<T> + Send,
) -> PyResult<T>
where
    T: Send,
{
    if seconds.is_some_and(|seconds| seconds <= 0.0) {
        return call(Timeout::Now).map_err(errors::of);
    }
    let until = Until::new(seconds)?;
    loop {
        let time = until.left().map_or(SLICE, |left| left.min(SLICE));
        let called = py.detach(|| call(Timeout::After(time)));
        match called {
            Err(error) if error.kind() == ErrorKind::TimedOut && !until.is_over() => {
                py.check_signals()?;
            }
            other => return other.map_err(errors::of),
        }
    }
}

fn options(size_bytes: Option<u64>) -> Options {
    size_bytes.map_or_else(Options::new, |bytes| Options::new().capacity_bytes(bytes))
}

/// Makes a stream of bytes: a writer and a reader.
#[pyfunction]
#[pyo3(signature = (size_bytes=None))]
pub fn pipe(size_bytes: Option<u64>) -> PyResult<(Writer, Reader)> {
    let (writer, reader) = Handle::stream_pair(&options(size_bytes)).map_err(errors::of)?;
    Ok((Writer(Slot::new(State::apart(writer))), Reader(Slot::new(State::apart(reader)))))
}

/// Makes a pipe of records: a writer and a reader.
#[pyfunction]
#[pyo3(signature = (size_bytes=None))]
pub fn records(size_bytes: Option<u64>) -> PyResult<(RecordWriter, RecordReader)> {
    let (writer, reader) = Handle::record_pair(&options(size_bytes)).map_err(errors::of)?;
    let reader = RecordReader { slot: Slot::new(State::apart(reader)), lent: Mutex::default() };
    Ok((RecordWriter(Slot::new(State::apart(writer))), reader))
}

/// How another process makes an end of this class from its descriptors.
fn reduced<'py, T: pyo3::PyTypeInfo>(
    py: Python<'py>,
    (memory, socket): (i32, i32),
) -> PyResult<Bound<'py, PyTuple>> {
    let reduction = py.import("multiprocessing.reduction")?;
    let given = |fd| reduction.call_method1("DupFd", (fd,));
    let arguments = (T::type_object(py), given(memory)?, given(socket)?);
    let made = py.import("weir.handing")?.getattr("received")?;
    PyTuple::new(py, [made, arguments.into_pyobject(py)?.into_any()])
}

fn received(memory: i32, socket: i32) -> PyResult<(OwnedFd, OwnedFd)> {
    let failed = |cause| errors::os(format!("cannot open an end: {cause}"), &cause);
    let copy = |fd| crate::memory::duplicate(fd).map_err(failed);
    Ok((copy(memory)?, copy(socket)?))
}

fn open_writer(memory: OwnedFd, socket: OwnedFd) -> weir::Result<weir::Writer> {
    weir::Writer::open(Handle::writer(memory, socket))
}

fn open_reader(memory: OwnedFd, socket: OwnedFd) -> weir::Result<weir::Reader> {
    weir::Reader::open(Handle::reader(memory, socket))
}

fn open_record_writer(memory: OwnedFd, socket: OwnedFd) -> weir::Result<weir::RecordWriter> {
    weir::RecordWriter::open(Handle::writer(memory, socket))
}

fn open_record_reader(memory: OwnedFd, socket: OwnedFd) -> weir::Result<weir::RecordReader> {
    weir::RecordReader::open(Handle::reader(memory, socket))
}

/// A class of Python for an end, with what all ends have.
macro_rules! end_class {
    ($class:ident, $slot:tt, $make:expr, $open:expr; $($more:tt)*) => {
        #[pymethods]
        impl $class {
            /// An end from copies of the descriptors that another process sent.
            #[staticmethod]
            fn _received(memory: i32, socket: i32) -> PyResult<$class> {
                let (memory, socket) = received(memory, socket)?;
                let make: fn(State<_>) -> $class = $make;
                Ok(make(State::Apart(memory, socket)))
            }

            fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
                let descriptors = self.$slot.lock()?.descriptors()?;
                reduced::<$class>(py, descriptors)
            }

            /// A descriptor for poll, epoll and asyncio: readable until a call says `WouldBlock`.
            fn fileno(&self) -> PyResult<i32> {
                let mut state = self.$slot.lock()?;
                let end = state.end($open)?;
                Ok(end.poll_descriptor().map_err(errors::of)?.as_raw_fd())
            }

            fn __enter__(slf: Py<$class>) -> Py<$class> {
                slf
            }

            #[pyo3(signature = (*_error))]
            fn __exit__(&self, _error: &Bound<'_, PyTuple>, py: Python<'_>) -> PyResult<()> {
                self.close(py)
            }

            $($more)*
        }
    };
}

/// The end of a stream that is written to.
#[pyclass(frozen, module = "weir")]
pub struct Writer(Slot<weir::Writer>);

end_class! {
    Writer, 0, |state| Writer(Slot::new(state)), open_writer;
    /// Writes all bytes, and waits for room.
    #[pyo3(signature = (data, timeout=None))]
    fn write(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let source = Source::new(data)?;
        let bytes = source.bytes();
        let mut state = self.0.lock()?;
        let end = state.end(open_writer)?;
        let mut written = 0;
        let done = in_slices(py, timeout, |time| {
            let called = end.write_timeout(&bytes[written..], time);
            // What was published is not written again.
            let count = |error: &weir::Error| error.written_bytes().unwrap_or(0);
            written += called.as_ref().map_or_else(count, |count| *count);
            match called {
                Ok(_) if written < bytes.len() => {
                    let why = "it stayed full";
                    Err(weir::Error::new(ErrorKind::TimedOut, "write to", "the pipe", why))
                }
                other => other.map(drop),
            }
        });
        match done {
            Err(_) if written > 0 => Ok(written),
            done => done.map(|()| written),
        }
    }

    /// Closes the end: the reader reads what is left, and then the end.
    fn close(&self, _py: Python<'_>) -> PyResult<()> {
        self.0.close()
    }
}

/// The end of a stream that is read from.
#[pyclass(frozen, module = "weir")]
pub struct Reader(Slot<weir::Reader>);

end_class! {
    Reader, 0, |state| Reader(Slot::new(state)), open_reader;
    /// Reads at most so many bytes, and waits for the first. Nothing is the end.
    #[pyo3(signature = (most=65536, timeout=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.0.lock()?;
        let end = state.end(open_reader)?;
        let mut buffer = vec![0; most];
        let count = in_slices(py, timeout, |time| end.read_timeout(&mut buffer, time))?;
        Ok(PyBytes::new(py, &buffer[..count]).into_any())
    }

    /// Reads into a buffer, such as a bytearray or an array: how many bytes. 0 is the end.
    #[pyo3(signature = (buffer, timeout=None))]
    fn readinto(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let mut target = Source::writable(buffer)?;
        let bytes = target.bytes_mut();
        let mut state = self.0.lock()?;
        let end = state.end(open_reader)?;
        in_slices(py, timeout, |time| end.read_timeout(bytes, time))
    }

    /// Closes the end: a writer then hears of it.
    fn close(&self, _py: Python<'_>) -> PyResult<()> {
        self.0.close()
    }
}

/// The end of a pipe of records that sends.
#[pyclass(frozen, module = "weir")]
pub struct RecordWriter(Slot<weir::RecordWriter>);

end_class! {
    RecordWriter, 0, |state| RecordWriter(Slot::new(state)),
    open_record_writer;
    /// Sends a record, whole or not at all, and waits for room.
    #[pyo3(signature = (data, timeout=None))]
    fn send(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let source = Source::new(data)?;
        let mut state = self.0.lock()?;
        let end = state.end(open_record_writer)?;
        if timeout.is_none_or(|seconds| seconds > 0.0) {
            match end.try_send(source.bytes()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done.map_err(errors::of),
            }
        }
        in_slices(py, timeout, |time| end.send_timeout(source.bytes(), time))
    }

    /// Closes the end: the reader receives what is left, and then the end.
    fn close(&self, _py: Python<'_>) -> PyResult<()> {
        self.0.close()
    }
}

/// The end of a pipe of records that receives.
#[pyclass(frozen, module = "weir")]
pub struct RecordReader {
    slot: Slot<weir::RecordReader>,
    /// A record that lies in the ring and is lent to somebody.
    lent: Mutex<Option<Lender>>,
}

impl RecordReader {
    /// Takes back what is lent, and consumes that record.
    fn end_loan(&self, py: Python<'_>) -> PyResult<()> {
        let busy = || errors::invalid("cannot use the end: another thread is using it".into());
        let mut lent = self.lent.try_lock().map_err(|_| busy())?;
        let Some(lender) = &*lent else { return Ok(()) };
        if !lender.take_back(py) {
            let why = "cannot end the loan: views of the record are still in use";
            return Err(pyo3::exceptions::PyBufferError::new_err(why));
        }
        *lent = None;
        let mut state = self.slot.lock()?;
        let end = state.end(open_record_reader)?;
        match end.lend_timeout(Timeout::Now).map_err(errors::of)? {
            Some(loan) => loan.consume().map_err(errors::of),
            None => Ok(()),
        }
    }

    /// Waits until there is a record: whether there is one before the end.
    fn wait(
        &self,
        py: Python<'_>,
        end: &mut weir::RecordReader,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        match end.lend_timeout(Timeout::Now) {
            Ok(found) => return Ok(found.is_some()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if timeout.is_some_and(|seconds| seconds <= 0.0) {
                    return Err(errors::of(error));
                }
            }
            Err(error) => return Err(errors::of(error)),
        }
        in_slices(py, timeout, |time| end.lend_timeout(time).map(|found| found.is_some()))
    }
}

end_class! {
    RecordReader, slot,
    |state| RecordReader { slot: Slot::new(state), lent: Mutex::default() },
    open_record_reader;
    /// Receives the next record, and waits for it. None is the end.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.end_loan(py)?;
        let mut state = self.slot.lock()?;
        let end = state.end(open_record_reader)?;
        if !self.wait(py, end, timeout)? {
            return Ok(None);
        }
        let Some(mut loan) = end.lend_timeout(Timeout::Now).map_err(errors::of)? else {
            return Ok(None);
        };
        let mut record = Fresh::bytes(py, loan.len())?;
        loan.view().map_err(errors::of)?.copy_to(0, record.fill());
        loan.consume().map_err(errors::of)?;
        Ok(Some(record.object()))
    }

    /// Lends the next record where it lies, as an object with the buffer protocol. None is the end.
    /// The record is consumed by `end_lent`, or by the next call that receives or lends.
    #[pyo3(signature = (timeout=None))]
    fn _lend<'py>(
        slf: &Bound<'py, RecordReader>,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let this = slf.get();
        this.end_loan(py)?;
        let mut state = this.slot.lock()?;
        let end = state.end(open_record_reader)?;
        if !this.wait(py, end, timeout)? {
            return Ok(None);
        }
        let Some(mut loan) = end.lend_timeout(Timeout::Now).map_err(errors::of)? else {
            return Ok(None);
        };
        let view = loan.view().map_err(errors::of)?;
        let lender = lend_record(py, slf.as_any(), &view)?;
        let object = lender.object(py).clone();
        *this.lent.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(lender);
        Ok(Some(object))
    }

    /// Ends the loan.
    fn _end_lent(&self, py: Python<'_>) -> PyResult<()> {
        self.end_loan(py)
    }

    /// Lends the next record in a `with`, as a memoryview that is valid as long as that.
    #[pyo3(signature = (timeout=None))]
    fn lend<'py>(
        slf: &Bound<'py, RecordReader>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("weir.loans")?.call_method1("Lent", (slf, timeout))
    }

    fn __iter__(slf: Py<RecordReader>) -> Py<RecordReader> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.receive(py, None)
    }

    fn __aiter__<'py>(slf: &Bound<'py, RecordReader>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("weir.aio")?.call_method1("records", (slf,))
    }

    /// Closes the end. It fails while views of a lent record are in use.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if matches!(*self.slot.lock()?, State::Open(_)) {
            self.end_loan(py)?;
        }
        self.slot.close()
    }
}

/// A message of a port, or the end of one of its writers.
#[pyclass(frozen, get_all, module = "weir")]
pub struct Message {
    /// The message; None where the writer has ended.
    data: Option<Py<PyBytes>>,
    /// The number of its writer, from 1.
    writer: u64,
    /// The number of the message among its writer's, from 1.
    sequence: u64,
    /// The process that sent it.
    pid: i32,
    /// The user of that process.
    uid: u32,
    /// How the writer ended: "closed", "died" or "shut out".
    ending: Option<&'static str>,
}

#[pymethods]
impl Message {
    fn __repr__(&self) -> String {
        let Message { writer, sequence, pid, ending, .. } = self;
        match ending {
            Some(how) => format!("<weir.Message: writer {writer}, process {pid}, {how}>"),
            None => format!("<weir.Message {sequence} of writer {writer}, process {pid}>"),
        }
    }
}

/// A port: many writers, one reader, a name.
#[pyclass(frozen, module = "weir", name = "Port")]
pub struct PyPort(Mutex<Option<PortHere>>);

struct PortHere {
    port: Port,
    buffer: Vec<u8>,
}

/// The first length of the buffer of a port, which grows as messages need.
const BUFFER_BYTES: usize = 64 << 10;

impl PyPort {
    fn with<T>(&self, call: impl FnOnce(&mut PortHere) -> PyResult<T>) -> PyResult<T> {
        let why = "cannot use the port: another thread is using it";
        let mut port = self.0.try_lock().map_err(|_| errors::invalid(why.into()))?;
        call(port.as_mut().ok_or_else(errors::closed_here)?)
    }
}

#[pymethods]
impl PyPort {
    #[new]
    #[pyo3(signature = (name, *, mode=0o600, most_message_bytes=None))]
    fn new(name: PathBuf, mode: u32, most_message_bytes: Option<u64>) -> PyResult<PyPort> {
        let mut options = PortOptions::new().mode(mode);
        if let Some(bytes) = most_message_bytes {
            options = options.most_message_bytes(bytes);
        }
        let port = Port::create(name, &options).map_err(errors::of)?;
        Ok(PyPort(Mutex::new(Some(PortHere { port, buffer: vec![0; BUFFER_BYTES] }))))
    }

    /// Receives the next message of any writer, or the end of one, and waits for it.
    #[pyo3(signature = (timeout=None))]
    fn receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Message> {
        self.with(|PortHere { port, buffer }| {
            let received = in_slices(py, timeout, |time| {
                loop {
                    match port.receive_timeout(buffer, time) {
                        Err(error) if error.needed_bytes().is_some() => {
                            buffer.resize(error.needed_bytes().unwrap_or(0), 0);
                        }
                        other => break other,
                    }
                }
            })?;
            let (data, ending) = match received.event {
                Event::Message { bytes } => {
                    (Some(PyBytes::new(py, &buffer[..bytes]).unbind()), None)
                }
                Event::Closed(weir::Ending::Closed) => (None, Some("closed")),
                Event::Closed(weir::Ending::Died) => (None, Some("died")),
                _ => (None, Some("shut out")),
            };
            let (pid, uid) = (received.identity.pid, received.identity.uid);
            let (writer, sequence) = (received.writer.number(), received.sequence);
            Ok(Message { data, writer, sequence, pid, uid, ending })
        })
    }

    /// The open writers, by their numbers: process, messages and bytes received, whether it waits.
    fn writers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(|here| {
            let all = PyDict::new(py);
            for stat in here.port.writers().map_err(errors::of)? {
                let one = (stat.identity.pid, stat.messages, stat.bytes, stat.waiting);
                all.set_item(stat.id.number(), one)?;
            }
            Ok(all)
        })
    }

    /// The path of its socket.
    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        self.with(|here| Ok(here.port.path().to_owned()))
    }

    /// A descriptor for poll, epoll and asyncio: readable until a call says `WouldBlock`.
    fn fileno(&self) -> PyResult<i32> {
        self.with(|here| Ok(here.port.poll_descriptor().map_err(errors::of)?.as_raw_fd()))
    }

    /// Closes the port and takes its name away.
    fn close(&self) -> PyResult<()> {
        let why = "cannot close the port: another thread is using it";
        *self.0.try_lock().map_err(|_| errors::invalid(why.into()))? = None;
        Ok(())
    }

    fn __enter__(slf: Py<PyPort>) -> Py<PyPort> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    fn __iter__(slf: Py<PyPort>) -> Py<PyPort> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Message> {
        self.receive(py, None)
    }

    fn __aiter__<'py>(slf: &Bound<'py, PyPort>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("weir.aio")?.call_method1("messages", (slf,))
    }
}

/// A writer of a port.
#[pyclass(frozen, module = "weir", name = "PortWriter")]
pub struct PyPortWriter(Slot<PortWriter>);

#[pymethods]
impl PyPortWriter {
    /// Opens the port of this name; waits for its reader at most so many seconds, by default not.
    #[new]
    #[pyo3(signature = (name, *, size_bytes=None, connect_timeout=0.0))]
    fn new(
        py: Python<'_>,
        name: PathBuf,
        size_bytes: Option<u64>,
        connect_timeout: f64,
    ) -> PyResult<PyPortWriter> {
        let until = Until::new(Some(connect_timeout))?;
        loop {
            let slice = until.left().unwrap_or(SLICE).min(SLICE);
            let mut options = PortWriterOptions::new().connect_timeout(slice);
            if let Some(bytes) = size_bytes {
                options = options.capacity_bytes(bytes);
            }
            match py.detach(|| PortWriter::connect(&name, &options)) {
                Ok(writer) => return Ok(PyPortWriter(Slot::new(State::Open(writer)))),
                Err(error)
                    if matches!(error.kind(), ErrorKind::NoReader | ErrorKind::TimedOut)
                        && until.left() > Some(Duration::ZERO) =>
                {
                    py.check_signals()?;
                }
                Err(error) => return Err(errors::of(error)),
            }
        }
    }

    /// Sends a message, whole or not at all, and waits for room. A message longer than the ring is
    /// sent without a timeout only, and no signal ends that call.
    #[pyo3(signature = (data, timeout=None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let source = Source::new(data)?;
        let mut state = self.0.lock()?;
        let State::Open(end) = &mut *state else { return Err(errors::closed_here()) };
        if timeout.is_none_or(|seconds| seconds > 0.0) {
            match end.try_send(source.bytes()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Its pieces never fit at once: only a call without an end may send them.
                Err(error) if error.kind() == ErrorKind::Invalid && timeout.is_none() => {
                    return py.detach(|| end.send(source.bytes())).map_err(errors::of);
                }
                done => return done.map_err(errors::of),
            }
        }
        in_slices(py, timeout, |time| end.send_timeout(source.bytes(), time))
    }

    /// A descriptor for poll, epoll and asyncio: readable once there is room.
    fn fileno(&self) -> PyResult<i32> {
        let mut state = self.0.lock()?;
        let State::Open(end) = &mut *state else { return Err(errors::closed_here()) };
        Ok(end.poll_descriptor().map_err(errors::of)?.as_raw_fd())
    }

    /// Closes the writer. What it has sent is received.
    fn close(&self) -> PyResult<()> {
        self.0.close()
    }

    fn __enter__(slf: Py<PyPortWriter>) -> Py<PyPortWriter> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }
}
