"""A Hugging Face Trainer on machines that are reclaimed."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .spot import Watching


class Spot(TrainerCallback):
    """A callback that reports progress and, at a notice, ends training on all ranks with a checkpoint after the current step."""

    def __init__(self) -> None:
        self._watching, self._ends = Watching(), False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> TrainerControl:
        if self._watching.ends(state.global_step):
            self._ends = control.should_save = control.should_training_stop = True
        return control

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._ends:  # the callbacks after it are for a finished model
            self._watching.exit()
