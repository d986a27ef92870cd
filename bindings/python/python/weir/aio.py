"""Ends in asyncio, on any loop that has `add_reader`: `async for message in port`."""

from __future__ import annotations

import asyncio
from typing import AsyncIterator, Protocol

from ._weir import Message, Port, RecordReader
from .errors import WouldBlock


class _Polled(Protocol):
    def fileno(self) -> int: ...


async def ready(end: _Polled) -> None:
    """Waits until the descriptor of an end is readable: until there is something to do."""
    loop = asyncio.get_running_loop()
    fd, came = end.fileno(), loop.create_future()

    def wake() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await came
    finally:
        loop.remove_reader(fd)


async def messages(port: Port) -> AsyncIterator[Message]:
    """The messages of a port, as they come."""
    while True:
        try:
            message = port.receive(timeout=0)
        except WouldBlock:
            await ready(port)
        else:
            yield message


async def records(reader: RecordReader) -> AsyncIterator[bytes]:
    """The records of a pipe, until its end."""
    while True:
        try:
            record = reader.receive(timeout=0)
        except WouldBlock:
            await ready(reader)
            continue
        if record is None:
            return
        yield record
