"""A queue between processes: what :class:`multiprocessing.Queue` is, in shared memory."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import weakref
from multiprocessing import reduction, util
from multiprocessing.process import BaseProcess
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Callable, Generic, Tuple

from ._weir import QueueRing
from .handing import descriptor_of

__all__ = ["Empty", "Full", "Queue"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # A queue that is made without saying of what is one of anything.
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Queue(QueueRing[T], Generic[T]):
    """A queue in shared memory, for any number of processes that put and get.

    It is used as :class:`multiprocessing.Queue` is, and is passed on as that is: to children that
    are forked, spawned or come from a server, in the arguments of a pool, and in messages.

    >>> import weir
    >>> queue = weir.Queue()
    >>> queue.put({"answer": 42})
    >>> queue.get()
    {'answer': 42}
    >>> queue.get(timeout=0.01)
    Traceback (most recent call last):
    ...
    _queue.Empty
    >>> queue = weir.Queue(maxsize=1)
    >>> queue.put("one")
    >>> queue.put("two", timeout=0.01)
    Traceback (most recent call last):
    ...
    queue.Full
    >>> queue.qsize()
    1

    What :meth:`put` has put when it returns is in the queue, whatever happens to its process then:
    there is no thread that has still to send it. An object that cannot be pickled is an exception
    of `put`.

    ``bytes``, ``bytearray`` and the buffers of arrays are not pickled. They are copied once into
    shared memory and once out of it.

    A queue without `maxsize` grows as long as there is memory. `size_bytes` is its first size.

    If a process dies that may have had something to put, :meth:`get` raises :class:`weir.PeerDied`
    once, within a second, instead of waiting for ever; so does a `put` that waits for room.
    """

    def __new__(cls, *given: Any, **named: Any) -> Queue[T]:
        queue: Queue[T] = super().__new__(cls, *given, **named)
        _open_here.add(queue)
        return queue

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.qsize()} items"
        return f"<weir.Queue, {state}>"

    def put_nowait(self, obj: T) -> None:
        """Puts an object, or raises :class:`Full`."""
        self.put(obj, False)

    def get_nowait(self) -> T:
        """Gets an object, or raises :class:`Empty`."""
        return self.get(False)

    def empty(self) -> bool:
        """Whether the queue is empty now."""
        return self.qsize() == 0

    def full(self) -> bool:
        """Whether there are `maxsize` objects in the queue now."""
        most = self._most_items()
        return 0 < most <= self.qsize()

    def join_thread(self) -> None:
        """Does nothing: there is no thread, and all is in the queue."""

    def cancel_join_thread(self) -> None:
        """Does nothing: a process that ends waits for nobody."""

    def __enter__(self) -> Queue[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        if self.closed:
            raise ValueError(f"Queue {self!r} is closed")
        return _received, (reduction.DupFd(self._fileno()),)


def _received(descriptor: Any) -> Queue[Any]:
    """A queue that came from another process."""
    fd = descriptor_of(descriptor)
    try:
        return Queue(_fd=fd)
    finally:
        os.close(fd)


# Queues that this process has.
_open_here: weakref.WeakSet[Queue[Any]] = weakref.WeakSet()


def _join_in_child() -> None:
    """A forked child has its parent's queues, and is a process of its own."""
    for queue in list(_open_here):
        queue._join_again()
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
        queue._leave(failed)


os.register_at_fork(after_in_child=_join_in_child)
# A child of multiprocessing forgets what its parent does at its exit.
util.register_after_fork(_leave_at_exit, lambda _: _leave_at_exit())
setattr(BaseProcess, "run", _watched(BaseProcess.run))
_leave_at_exit()
