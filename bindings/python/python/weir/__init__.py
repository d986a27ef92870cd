"""Queues, pipes, ports and flags between processes, in shared memory.

>>> import weir
>>> queue = weir.Queue()
>>> queue.put([1, 2, 3])
>>> queue.get()
[1, 2, 3]
"""

from .errors import (
    Closed,
    Corrupt,
    Error,
    Forked,
    Invalid,
    NoReader,
    PeerDied,
    Refused,
    Taken,
    TimedOut,
    TooSmall,
    WouldBlock,
)
from .queue import Empty, Full, Queue

__all__ = [
    "Closed",
    "Corrupt",
    "Empty",
    "Error",
    "Forked",
    "Full",
    "Invalid",
    "NoReader",
    "PeerDied",
    "Queue",
    "Refused",
    "Taken",
    "TimedOut",
    "TooSmall",
    "WouldBlock",
]
