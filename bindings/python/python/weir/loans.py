"""Records that are read where they lie."""

from __future__ import annotations

from typing import Optional

from ._weir import RecordReader


class Lent:
    """A record that is lent in a `with`; see :meth:`weir.RecordReader.lend`."""

    def __init__(self, reader: RecordReader, timeout: Optional[float]) -> None:
        self._reader, self._timeout = reader, timeout
        self._view: Optional[memoryview] = None

    def __enter__(self) -> Optional[memoryview]:
        lent = self._reader._lend(self._timeout)
        self._view = None if lent is None else memoryview(lent)
        return self._view

    def __exit__(self, *_: object) -> None:
        # Either fails where somebody still has a view of the record: the loan then goes on.
        if self._view is not None:
            self._view.release()
            self._reader._end_lent()
