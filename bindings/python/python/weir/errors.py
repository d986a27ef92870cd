"""Errors of weir. Each is an :class:`OSError`, with a number and a sentence."""

from __future__ import annotations

__all__ = [
    "Closed",
    "Corrupt",
    "Error",
    "Forked",
    "Invalid",
    "NoReader",
    "PeerDied",
    "Refused",
    "Taken",
    "TimedOut",
    "TooSmall",
    "WouldBlock",
]


class Error(OSError):
    """Any error of weir; by itself, one of the kernel."""


class Closed(Error, BrokenPipeError):
    """The other end has closed or died."""


class NoReader(Error, ConnectionRefusedError):
    """No reader listens."""


class Refused(Error, ConnectionRefusedError):
    """The reader refused the writer, or has shut it out."""


class Taken(Error, FileExistsError):
    """Another process has the name, or a file that is not weir's has it."""


class WouldBlock(Error, BlockingIOError):
    """The call would have to wait."""


class TimedOut(Error, TimeoutError):
    """The timeout has passed."""


class Invalid(Error, ValueError):
    """A size, a name or another argument is not valid."""


class Corrupt(Error):
    """What lies in shared memory is not valid."""


class TooSmall(Error):
    """The buffer is too small for the record, which stays."""


class Forked(Error):
    """The end belongs to the process that this one was forked from."""


class PeerDied(Error):
    """A process died, or ended by an error, with the queue open.

    It comes once for each such process. The queue is sound, and can be used on.
    """
