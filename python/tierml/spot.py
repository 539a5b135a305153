"""Code shared by the callbacks of training libraries."""

from __future__ import annotations

import signal
import sys
import threading
import time

from . import reporting
from .keeping import _agree


class Watching:
    """Reports progress, and determines the step at which all ranks end."""

    def __init__(self) -> None:
        # SIGTERM would end the program in the middle of a step.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: None)
        self._handler = signal.getsignal(signal.SIGTERM)

    def alone(self) -> None:
        """Restore the SIGTERM handler, which a library has replaced by one that ends training without a checkpoint."""
        if threading.current_thread() is threading.main_thread() and self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)

    def ends(self, step: int) -> bool:
        """Report a completed step; True if a rank has a notice."""
        reporting.progress(step)
        return bool(_agree(int(reporting.ending())))

    def exit(self) -> None:
        """End as after SIGTERM. The ranks of other machines end on request."""
        while not reporting.ending():
            time.sleep(0.02)
        sys.exit(143)
