"""What a program on TierML's machines can ask and say: notices, progress, and a state that survives its machine.

Everything also works where TierML is not: notice() is None, progress() does nothing, and keep() keeps nothing.
"""

import os

from .batches import Batches
from .diloco import DiLoCo
from .keeping import Kept, keep
from .reporting import notice, progress

__all__ = ["Batches", "DiLoCo", "Kept", "keep", "notice", "progress", "rank", "ranks", "resumed", "state", "task", "tasks"]
__version__ = "0.1.0"


def resumed():
    """Whether this program continues from a state that was saved."""
    return os.environ.get("TIERML_RESUMED") == "1"


def state():
    """The directory that is mirrored; None if the job has none."""
    return os.environ.get("TIERML_STATE") or None


def rank():
    return int(os.environ.get("TIERML_RANK", "0"))


def ranks():
    return int(os.environ.get("TIERML_RANKS", "1"))


def task():
    """Which item of the array this is, from 0; None without `tasks`."""
    number = os.environ.get("TIERML_TASK")
    return None if number is None else int(number)


def tasks():
    number = os.environ.get("TIERML_TASKS")
    return None if number is None else int(number)
