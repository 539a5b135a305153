"""A Hugging Face Trainer on machines that are reclaimed."""

import signal
import sys
import threading
import time

from transformers import TrainerCallback

from . import reporting
from .keeping import _agree


class Spot(TrainerCallback):
    """A callback that says how far training is, and at a notice ends it with a checkpoint of the step at hand, on all ranks."""

    def __init__(self):
        self._ends = False
        # SIGTERM would end the program in the middle of a step.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: None)

    def on_step_end(self, args, state, control, **kwargs):
        reporting.progress(state.global_step)
        if _agree(int(reporting.ending())):
            self._ends = control.should_save = control.should_training_stop = True
        return control

    def on_train_end(self, args, state, control, **kwargs):
        if self._ends:  # what follows is for a model that is done
            while not reporting.ending():  # the other ranks end when they are asked to
                time.sleep(0.02)
            sys.exit(143)  # as after SIGTERM
