//! Plain values as bytes: `None`, numbers, text, `bytes`, and tuples, lists and dictionaries of
//! them. A pickle of them takes several times as long.
//!
//! A value is a letter and what belongs to it; counts and lengths have 4 bytes. What a pickle
//! would tell apart is left to a pickle: classes that derive from these, integers of more than 64
//! bits, text with surrogates, and a list or dictionary that is in a value twice.

use crate::memory::{references, text_of};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};

/// A value in bytes.
pub type Written = Vec<u8>;
/// Room for most values from the beginning.
const USUAL_BYTES: usize = 256;
/// The deepest nesting.
const MOST_DEPTH: u32 = 16;
/// The most bytes: lengths have 32 bits.
const MOST_BYTES: usize = 1 << 30;

/// Appends a value. False if it is not plain: then what was appended is of no use.
pub fn write(object: &Bound<'_, PyAny>, to: &mut Written) -> bool {
    to.reserve(USUAL_BYTES);
    write_at(object, to, MOST_DEPTH, false).is_some() && to.len() <= MOST_BYTES
}

/// Writes a value in a value of so many more levels. `shared`: it may be reached in several ways.
fn write_at(object: &Bound<'_, PyAny>, to: &mut Written, depth: u32, shared: bool) -> Option<()> {
    if object.is_exact_instance_of::<PyString>() {
        let text = text_of(object)?;
        counted(to, b's', text.len())?;
        to.extend_from_slice(text);
    } else if object.is_exact_instance_of::<PyInt>() {
        write_int(object.extract().ok()?, to);
    } else if let Ok(number) = object.cast_exact::<PyFloat>() {
        to.push(b'd');
        to.extend_from_slice(&number.value().to_ne_bytes());
    } else if object.is_none() {
        to.push(b'N');
    } else if let Ok(truth) = object.cast_exact::<PyBool>() {
        to.push(if truth.is_true() { b'T' } else { b'F' });
    } else if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        counted(to, b'b', bytes.as_bytes().len())?;
        to.extend_from_slice(bytes.as_bytes());
    } else {
        // The outermost is reached in one way, by whoever puts it. The others have two references
        // at least: what they are in, and `object`.
        let again = shared || depth < MOST_DEPTH && references(object) > 2;
        let depth = depth.checked_sub(1)?;
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            counted(to, b't', tuple.len())?;
            return tuple.iter().try_for_each(|each| write_at(&each, to, depth, again));
        }
        if again {
            return None;
        }
        if let Ok(list) = object.cast_exact::<PyList>() {
            counted(to, b'l', list.len())?;
            list.iter().try_for_each(|each| write_at(&each, to, depth, false))?;
        } else {
            let dict = object.cast_exact::<PyDict>().ok()?;
            counted(to, b'm', dict.len())?;
            for (key, value) in dict {
                write_at(&key, to, depth, false)?;
                write_at(&value, to, depth, false)?;
            }
        }
    }
    Some(())
}

fn counted(to: &mut Written, letter: u8, count: usize) -> Option<()> {
    let [a, b, c, d] = u32::try_from(count).ok()?.to_ne_bytes();
    to.extend_from_slice(&[letter, a, b, c, d]);
    Some(())
}

fn write_int(number: i64, to: &mut Written) {
    if let Ok(number) = i8::try_from(number) {
        to.extend_from_slice(&[b'i', number as u8]);
    } else {
        to.push(b'q');
        to.extend_from_slice(&number.to_ne_bytes());
    }
}

/// The value that was written; `None` if these bytes are none.
pub fn read<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut reader = Reader { py, rest: bytes, keys: None };
    let value = reader.value(MOST_DEPTH)?;
    if let Some(keys) = reader.keys {
        let replaced = KEYS.lock().unwrap_or_else(PoisonError::into_inner).replace(keys);
        drop(replaced);
    }
    Ok(value.filter(|_| reader.rest.is_empty()))
}

/// Keys of dictionaries that came before: most come again, and a key that is there already need
/// not be made, and has its hash.
type Keys = Box<[Option<(SmallVec<[u8; LONGEST_KEY]>, Py<PyString>)>; 256]>;

const LONGEST_KEY: usize = 32;

static KEYS: Mutex<Option<Keys>> = Mutex::new(None);

/// The place of a key among those that are kept.
fn place_of(key: &[u8]) -> usize {
    let hash = key
        .iter()
        .fold(key.len() as u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte));
    (hash ^ hash >> 16) as u8 as usize
}

struct Reader<'py, 'a> {
    py: Python<'py>,
    rest: &'a [u8],
    /// Taken at the first dictionary: a thread that reads meanwhile has keys of its own.
    keys: Option<Keys>,
}

type Values<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

impl<'py, 'a> Reader<'py, 'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    fn count(&mut self) -> Option<usize> {
        self.array().map(|count| u32::from_ne_bytes(count) as usize)
    }

    fn value(&mut self, depth: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let Some([letter]) = self.array() else { return Ok(None) };
        Ok(match letter {
            b's' => {
                let text = self.count().and_then(|count| self.take(count));
                text.and_then(|text| self.text(text)).map(Bound::into_any)
            }
            b'i' => match self.array() {
                Some([number]) => Some((number as i8).into_pyobject(py)?.into_any()),
                None => None,
            },
            b'q' => match self.array() {
                Some(number) => Some(i64::from_ne_bytes(number).into_pyobject(py)?.into_any()),
                None => None,
            },
            b'd' => {
                let number = self.array().map(f64::from_ne_bytes);
                number.map(|number| PyFloat::new(py, number).into_any())
            }
            b'N' => Some(py.None().into_bound(py)),
            b'T' | b'F' => Some(PyBool::new(py, letter == b'T').to_owned().into_any()),
            b'b' => {
                let bytes = self.count().and_then(|count| self.take(count));
                bytes.map(|bytes| PyBytes::new(py, bytes).into_any())
            }
            b't' | b'l' | b'm' if depth > 0 => return self.container(letter, depth - 1),
            _ => None,
        })
    }

    fn text(&self, text: &[u8]) -> Option<Bound<'py, PyString>> {
        std::str::from_utf8(text).ok().map(|text| PyString::new(self.py, text))
    }

    /// The key of a dictionary.
    fn key(&mut self, depth: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, before) = (self.py, self.rest);
        let length = self.array().filter(|letter| *letter == [b's']).and_then(|_| self.count());
        let Some(length) = length.filter(|length| *length <= LONGEST_KEY) else {
            self.rest = before;
            return self.value(depth);
        };
        let Some(text) = self.take(length) else { return Ok(None) };
        let keys = self.keys.get_or_insert_with(|| {
            let kept = KEYS.lock().unwrap_or_else(PoisonError::into_inner).take();
            kept.unwrap_or_else(|| Box::new([const { None }; 256]))
        });
        let place = place_of(text);
        if let Some((known, key)) = &keys[place]
            && known[..] == *text
        {
            return Ok(Some(key.bind(py).clone().into_any()));
        }
        let Some(key) = self.text(text) else { return Ok(None) };
        if let Some(keys) = &mut self.keys {
            keys[place] = Some((SmallVec::from_slice(text), key.clone().unbind()));
        }
        Ok(Some(key.into_any()))
    }

    fn values(&mut self, count: usize, depth: u32) -> PyResult<Option<Values<'py>>> {
        // Each has a byte at least, so that nonsense asks for no memory.
        let mut values = Values::with_capacity(count.min(self.rest.len()));
        for _ in 0..count {
            let Some(value) = self.value(depth)? else { return Ok(None) };
            values.push(value);
        }
        Ok(Some(values))
    }

    fn container(&mut self, letter: u8, depth: u32) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let Some(count) = self.count() else { return Ok(None) };
        if letter == b'm' {
            let dict = PyDict::new(py);
            for _ in 0..count {
                let (Some(key), Some(value)) = (self.key(depth)?, self.value(depth)?) else {
                    return Ok(None);
                };
                dict.set_item(key, value)?;
            }
            return Ok(Some(dict.into_any()));
        }
        let Some(values) = self.values(count, depth)? else { return Ok(None) };
        Ok(Some(match letter {
            b't' => PyTuple::new(py, values)?.into_any(),
            _ => PyList::new(py, values)?.into_any(),
        }))
    }
}
