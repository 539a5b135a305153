"""The interface between a program and TierML's machines: notices, progress, and a state that survives its machine. Without TierML everything still
works: notice() is None, progress() does nothing, and keep() saves nothing.
"""

from __future__ import annotations

import os

from .batches import Batches
from .diloco import DiLoCo
from .keeping import Kept, keep
from .reporting import notice, progress

__all__ = ["Batches", "DiLoCo", "Kept", "keep", "notice", "progress", "rank", "ranks", "resumed", "state", "task", "tasks"]
__version__ = "0.1.0"


def resumed() -> bool:
    """Whether this program continues from a saved state."""
    return os.environ.get("TIERML_RESUMED") == "1"


def state() -> str | None:
    """The directory that is mirrored; None if the job has none."""
    return os.environ.get("TIERML_STATE") or None


def rank() -> int:
    """This machine's rank in the gang, from 0."""
    return int(os.environ.get("TIERML_RANK", "0"))


def ranks() -> int:
    """The gang's number of machines; 1 without a gang."""
    return int(os.environ.get("TIERML_RANKS", "1"))


def task() -> int | None:
    """This item's number in the array, from 0; None without `tasks`."""
    return _number("TIERML_TASK")


def tasks() -> int | None:
    """The array's number of items; None without `tasks`."""
    return _number("TIERML_TASKS")


def _number(name: str) -> int | None:
    text = os.environ.get(name)
    return None if text is None else int(text)
