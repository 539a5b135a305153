"""A Lightning Trainer on machines that are reclaimed."""

from __future__ import annotations

import os
from typing import Any

from lightning import Callback, LightningModule, Trainer

from .spot import Watching


class Spot(Callback):
    """A callback that reports progress and, at a notice, ends training on all ranks with a checkpoint after the current step. The checkpoint is
    last.ckpt in the folder of the Trainer's ModelCheckpoint, where ckpt_path="last" finds it."""

    def __init__(self) -> None:
        self._watching = Watching()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._watching.alone()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._watching.ends(trainer.global_step):
            folder = getattr(trainer.checkpoint_callback, "dirpath", None)
            if folder is None:
                raise RuntimeError("the Trainer needs a ModelCheckpoint with a dirpath, such as ModelCheckpoint(tierml.state(), save_last=True)")
            trainer.save_checkpoint(os.path.join(folder, "last.ckpt"))
            self._watching.exit()
