"""A queue between processes: what :class:`multiprocessing.Queue` is, in shared memory."""

from __future__ import annotations

import copyreg
import functools
import marshal
import multiprocessing
import os
import pickle
import sys
import weakref
from multiprocessing import reduction, util
from multiprocessing.process import BaseProcess
from queue import Empty, Full
from typing import Any, Callable, Generic, List, Optional, Tuple, TypeVar

from ._weir import QueueRing
from .handing import descriptor_of

__all__ = ["Empty", "Full", "Queue"]

T = TypeVar("T")

# Kinds of items. A `bytearray` is a part that is no `bytes`, so it comes second.
_PICKLE, _BYTES, _BYTEARRAY, _ARRAY = 1, 2, 3, 4
# Arrays that are as long are pickled: that takes no time beside their bytes.
_LONG_ARRAY = 1 << 20

_reducers: dict[Any, Any] = {}
_reducers_of: Tuple[int, int] = (0, 0)


def _dispatch_table() -> dict[Any, Any]:
    """Reducers that were registered: those of `copyreg` and those of `multiprocessing`."""
    global _reducers, _reducers_of
    extra = getattr(reduction.ForkingPickler, "_extra_reducers", {})
    lengths = (len(copyreg.dispatch_table), len(extra))
    if lengths != _reducers_of:
        _reducers, _reducers_of = {**copyreg.dispatch_table, **extra}, lengths
    return _reducers


class _Parts:
    """A file for a pickler, which keeps what is written as it comes: long bytes are not copied."""

    __slots__ = ("write",)

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self.write = write


def _pickled(item: Any) -> Tuple[List[Any], List[Any]]:
    """The stream of an object in parts, and the buffers that are not in the stream."""
    stream: List[Any] = []
    buffers: List[pickle.PickleBuffer] = []
    file: Any = _Parts(stream.append)
    pickler = pickle.Pickler(file, 5, buffer_callback=buffers.append)
    pickler.dispatch_table = _dispatch_table()
    pickler.dump(item)
    return stream, [buffer.raw() for buffer in buffers]


def _is_plain_array(item: Any) -> bool:
    """Whether an object is a short array of numbers, for which pickling takes longer than copying."""
    numpy = sys.modules.get("numpy")
    return (
        numpy is not None
        and type(item) is numpy.ndarray
        and item.nbytes < _LONG_ARRAY
        and item.dtype.kind in "biufc"
        and item.flags.carray
    )


def _array(head: bytes, data: Any) -> Any:
    import numpy

    kind, shape = marshal.loads(head)
    return numpy.ndarray(shape, kind, data)


class Queue(Generic[T]):
    """A queue in shared memory, for any number of processes that put and get.

    It is used as :class:`multiprocessing.Queue` is, and is passed on as that is: to children that
    are forked, spawned or come from a server, in the arguments of a pool, and in messages.

    >>> import weir
    >>> queue = weir.Queue()
    >>> queue.put({"answer": 42})
    >>> queue.get()
    {'answer': 42}

    What :meth:`put` has put when it returns is in the queue, whatever happens to its process then:
    there is no thread that has still to send it. An object that cannot be pickled is an exception
    of `put`.

    ``bytes``, ``bytearray`` and the buffers of arrays are not pickled. They are copied once into
    shared memory and once out of it.

    A queue without `maxsize` grows as long as there is memory. `size_bytes` is its first size.

    If a process dies that may have had something to put, :meth:`get` raises :class:`weir.PeerDied`
    once, within a second, instead of waiting for ever; so does a `put` that waits for room.
    """

    def __init__(self: Queue[Any], maxsize: int = 0, *, size_bytes: int = 1 << 20) -> None:
        # A size that is not positive, or beyond what is counted, is no bound.
        most = maxsize if 0 < maxsize < 1 << 31 else 0
        self._open(QueueRing.make(most, size_bytes))

    def _open(self, ring: QueueRing) -> None:
        self._ring = ring
        self._closed = False
        _open_here.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.qsize()} items"
        return f"<weir.Queue, {state}>"

    def put(self, obj: T, block: bool = True, timeout: Optional[float] = None) -> None:
        """Puts an object. Waits for room if there are `maxsize` items; else it never waits long.

        Raises :class:`Full` if there was no room in time.

        >>> import weir
        >>> queue = weir.Queue(maxsize=1)
        >>> queue.put("one")
        >>> queue.put("two", timeout=0.01)
        Traceback (most recent call last):
        ...
        queue.Full
        """
        self._check()
        kind = type(obj)
        if kind is bytes:
            done = self._ring.put(_BYTES, [obj], [], _seconds(block, timeout))
        elif kind is bytearray:
            done = self._ring.put(_BYTEARRAY, [], [obj], _seconds(block, timeout))
        elif _is_plain_array(obj):
            array: Any = obj
            head = marshal.dumps((array.dtype.str, array.shape))
            done = self._ring.put(_ARRAY, [head], [array], _seconds(block, timeout))
        else:
            stream, buffers = _pickled(obj)
            done = self._ring.put(_PICKLE, stream, buffers, _seconds(block, timeout))
        if not done:
            raise Full

    def get(self, block: bool = True, timeout: Optional[float] = None) -> T:
        """Gets the next object, and waits for it.

        Raises :class:`Empty` if none came in time.

        >>> import weir
        >>> weir.Queue().get(timeout=0.01)
        Traceback (most recent call last):
        ...
        _queue.Empty
        """
        self._check()
        found = self._ring.get(_seconds(block, timeout))
        if found is None:
            raise Empty
        kind, first, rest = found
        item: T
        if kind == _PICKLE:
            item = pickle.loads(first, buffers=rest)
        elif kind == _ARRAY:
            item = _array(first, rest[0])
        else:
            item = first if kind == _BYTES else rest[0]
        return item

    def put_nowait(self, obj: T) -> None:
        """Puts an object, or raises :class:`Full`."""
        self.put(obj, False)

    def get_nowait(self) -> T:
        """Gets an object, or raises :class:`Empty`."""
        return self.get(False)

    def qsize(self) -> int:
        """The number of objects in the queue now.

        >>> import weir
        >>> queue = weir.Queue()
        >>> queue.put(1); queue.put(2)
        >>> queue.qsize()
        2
        """
        return self._ring.size()

    def empty(self) -> bool:
        """Whether the queue is empty now."""
        return self._ring.size() == 0

    def full(self) -> bool:
        """Whether there are `maxsize` objects in the queue now."""
        most = self._ring.most_items()
        return 0 < most <= self._ring.size()

    def close(self) -> None:
        """Says that this process neither puts nor gets any more. Its end is then no death.

        What it has put stays in the queue.
        """
        if not self._closed:
            self._closed = True
            _open_here.discard(self)
            self._ring.leave(False)

    def join_thread(self) -> None:
        """Does nothing: there is no thread, and all is in the queue."""

    def cancel_join_thread(self) -> None:
        """Does nothing: a process that ends waits for nobody."""

    def __enter__(self) -> Queue[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")

    def __reduce__(self) -> Tuple[Any, ...]:
        self._check()
        return _received, (reduction.DupFd(self._ring.fileno()),)


def _received(descriptor: Any) -> Queue[Any]:
    """A queue that came from another process."""
    fd = descriptor_of(descriptor)
    queue: Queue[Any] = Queue.__new__(Queue)
    try:
        queue._open(QueueRing.open(fd))
    finally:
        os.close(fd)
    return queue


def _seconds(block: bool, timeout: Optional[float]) -> Optional[float]:
    """How long a call waits, as `QueueRing` takes it."""
    return timeout if block else 0.0


# Queues that this process has open.
_open_here: weakref.WeakSet[Queue[Any]] = weakref.WeakSet()


def _join_in_child() -> None:
    """A forked child has its parent's queues, and is a process of its own."""
    for queue in list(_open_here):
        queue._ring.join_again()
    _leave_at_exit()


def _leave_at_exit() -> None:
    util.Finalize(None, _leave_all, exitpriority=0)


def _watched(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """What a child of multiprocessing runs: it remembers that an exception has ended it."""

    @functools.wraps(run)
    def watched(process: Any) -> None:
        global _failed
        try:
            run(process)
        except BaseException as error:
            _failed = not (isinstance(error, SystemExit) and error.code in (None, 0))
            raise

    return watched


# Whether an exception has ended a child of multiprocessing.
_failed = False


def _leave_all() -> None:
    failed = _failed
    if multiprocessing.parent_process() is None:
        failed = getattr(sys, "last_value", None) is not None
    for queue in list(_open_here):
        queue._ring.leave(failed)


os.register_at_fork(after_in_child=_join_in_child)
# A child of multiprocessing forgets what its parent does at its exit.
util.register_after_fork(_leave_at_exit, lambda _: _leave_at_exit())
setattr(BaseProcess, "run", _watched(BaseProcess.run))
_leave_at_exit()
