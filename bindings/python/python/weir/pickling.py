"""How objects are pickled that go through a queue."""

from __future__ import annotations

import copyreg
import pickle
from multiprocessing import reduction
from typing import Any, Callable, List, Tuple


class _Parts:
    """A file for a pickler, which keeps what is written as it comes: long bytes are not copied."""

    __slots__ = ("write",)

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self.write = write


def make_pickler() -> Tuple[Any, ...]:
    """A pickler's `dump` and `clear_memo`, the lists that get its stream and its buffers, and the
    reducers that were registered with `copyreg` and with `multiprocessing`, which it knows."""
    extra = getattr(reduction.ForkingPickler, "_extra_reducers", {})
    stream: List[Any] = []
    buffers: List[pickle.PickleBuffer] = []
    file: Any = _Parts(stream.append)
    pickler = pickle.Pickler(file, 5, buffer_callback=buffers.append)
    pickler.dispatch_table = {**copyreg.dispatch_table, **extra}
    return pickler.dump, pickler.clear_memo, stream, buffers, copyreg.dispatch_table, extra
