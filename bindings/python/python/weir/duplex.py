"""Requests and replies between two processes."""

from __future__ import annotations

import time
from typing import Optional, Tuple

from ._weir import RecordReader, RecordWriter, records
from .errors import Closed

__all__ = ["Duplex", "duplex"]


class Duplex:
    """One side of a channel: a pipe of records to the other side, and one from it.

    >>> import weir
    >>> client, server = weir.duplex()
    >>> client.writer.send(b"question")
    >>> server.reader.receive()
    b'question'
    >>> server.writer.send(b"answer")
    >>> client.reader.receive()
    b'answer'
    """

    def __init__(self, writer: RecordWriter, reader: RecordReader) -> None:
        self.writer, self.reader = writer, reader

    def request(self, data: bytes, timeout: Optional[float] = None) -> bytes:
        """Sends a record and returns the next one that comes back.

        Nothing pairs a reply with its request: the other side answers in order. The reply to a request
        that timed out may still come.
        """
        until = None if timeout is None else time.monotonic() + timeout
        self.writer.send(data, timeout)
        left = None if until is None else max(0.0, until - time.monotonic())
        reply = self.reader.receive(left)
        if reply is None:
            raise Closed(32, "cannot request: the other side has closed or died")
        return reply

    def close(self) -> None:
        """Closes both pipes; the other side hears of it."""
        self.writer.close()
        self.reader.close()

    def __enter__(self) -> Duplex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def duplex(size_bytes: Optional[int] = None) -> Tuple[Duplex, Duplex]:
    """Makes a channel: its two sides."""
    there, from_here = records(size_bytes)
    here, from_there = records(size_bytes)
    return Duplex(there, from_there), Duplex(here, from_here)
