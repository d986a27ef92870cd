"""One wait for several ends."""

from __future__ import annotations

import selectors
from typing import Any, List, Optional, Protocol


class _Polled(Protocol):
    def fileno(self) -> int: ...


class Wait:
    """Waits for several ends at once, and for anything else that has a descriptor.

    An end is ready until a call on it raises :class:`weir.WouldBlock`, a new one too.

    >>> import weir
    >>> writer, reader = weir.records()
    >>> with weir.Wait() as wait:
    ...     wait.add(reader)
    ...     writer.send(b"here")
    ...     [end.receive(timeout=0) for end in wait.wait()]
    [b'here']
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, end: _Polled, *, to_write: bool = False) -> None:
        """Adds an end, or another object with a descriptor; `to_write` waits for room in that."""
        self._selector.register(end, selectors.EVENT_WRITE if to_write else selectors.EVENT_READ)

    def remove(self, end: _Polled) -> None:
        """Removes what was added, before it is closed."""
        self._selector.unregister(end)

    def wait(self, timeout: Optional[float] = None) -> List[Any]:
        """The ends that are ready: none if `timeout` seconds have passed."""
        return [key.fileobj for key, _ in self._selector.select(timeout)]

    def close(self) -> None:
        """Ends the wait. The ends stay open."""
        self._selector.close()

    def __enter__(self) -> Wait:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
