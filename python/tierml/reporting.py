"""Progress and notices: files that the program and its machine share."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any, SupportsFloat, SupportsInt

_open: dict[str, int] = {}  # the progress files, by name
named = False  # the program has reported progress


def progress(step: SupportsInt, loss: SupportsFloat | None = None) -> None:
    """Report the number of steps done, and the loss after them: a number, or a tensor of one element. It takes a few microseconds."""
    global named
    named = True
    write(step, loss)


def write(step: SupportsInt, loss: SupportsFloat | None = None) -> None:
    name = os.environ.get("TIERML_PROGRESS_FILE")
    if not name:
        return
    fd = _open.get(name)
    if fd is None:
        fd = _open[name] = os.open(name, os.O_CREAT | os.O_WRONLY, 0o600)
    text = "" if loss is None else repr(float(loss))
    if text and _rungs and int(step) >= _rungs[0]:
        _pass(int(step), text)
    # A single write of constant length: readers never see half of it.
    os.pwrite(fd, f"{int(step)} {text}".ljust(62).encode() + b"\n", 0)


# The remaining steps at which the trials of a sweep are compared.
_rungs = [int(at) for at in os.environ.get("TIERML_RUNGS", "").split()]


def _pass(step: int, loss: str) -> None:
    """Record the loss at a rung: the progress file is read only now and then."""
    while _rungs and step >= _rungs[0]:
        del _rungs[0]
    with open(os.environ["TIERML_RUNGS_FILE"], "a", encoding="ascii") as f:
        f.write(f"{step} {loss}\n")


def coming() -> tuple[dict[str, Any], float] | None:
    """The announced event, as the machine has written it, and its time; None if there is none."""
    name = os.environ.get("TIERML_NOTICE_FILE")
    if not name:
        return None
    try:
        with open(name, encoding="utf-8") as f:
            return json.load(f), os.fstat(f.fileno()).st_mtime
    except FileNotFoundError:
        return None


def ending() -> bool:
    """Whether the machine is going away or the program must stop: a rebalance recommendation does not count."""
    came = coming()
    return came is not None and came[0]["kind"] != "rebalance"


def notice() -> float | None:
    """Seconds until the machine ends or the program is stopped; None if neither is announced.

    A rebalance recommendation has no deadline: it is math.inf.
    """
    came = coming()
    if came is None:
        return None
    what, written = came
    if "seconds" not in what:
        return math.inf
    return max(0.0, float(what["seconds"]) - (time.time() - written))
