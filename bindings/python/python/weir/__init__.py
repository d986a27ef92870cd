"""Queues, pipes, ports and flags between processes, in shared memory.

>>> import weir
>>> queue = weir.Queue()
>>> queue.put([1, 2, 3])
>>> queue.get()
[1, 2, 3]
"""

from ._weir import (
    Flags,
    Message,
    Port,
    PortWriter,
    Reader,
    RecordReader,
    RecordWriter,
    Writer,
    __version__,
    pipe,
    records,
)
from .duplex import Duplex, duplex
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
from .wait import Wait

__all__ = [
    "Closed",
    "Corrupt",
    "Duplex",
    "Empty",
    "Error",
    "Flags",
    "Forked",
    "Full",
    "Invalid",
    "Message",
    "NoReader",
    "PeerDied",
    "Port",
    "PortWriter",
    "Queue",
    "Reader",
    "RecordReader",
    "RecordWriter",
    "Refused",
    "Taken",
    "TimedOut",
    "TooSmall",
    "Wait",
    "WouldBlock",
    "Writer",
    "__version__",
    "duplex",
    "pipe",
    "records",
]
