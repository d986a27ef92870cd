"""How ends come from another process."""

from __future__ import annotations

import os
from typing import Any


def descriptor_of(given: Any) -> int:
    """The descriptor that a `DupFd` brings, which then belongs to the caller."""
    fd: int = given.detach()
    return fd


def received(kind: Any, *given: Any) -> Any:
    """An end of this class from the descriptors that came; it takes copies of them."""
    descriptors = [descriptor_of(each) for each in given]
    try:
        return kind._received(*descriptors)
    finally:
        for fd in descriptors:
            os.close(fd)
