"""Keras: ``Follow()`` among the ``callbacks`` of ``fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras.callbacks import BackupAndRestore

from gpucommons.scheduler.training import current
from gpucommons.scheduler.training.callbacks.handing_in import agreed, hand_in, numbers, put_back


class Follow(BackupAndRestore):  # type: ignore[misc] # nothing is known of Keras here
    """Saves after each epoch and hands it in; leaves at a stop once the epoch is saved.

    ``fit`` goes on by itself from the folder of this kind of callback, and removes it at its end.
    """

    def __init__(self, backup_dir: str = "gpucommons-backup") -> None:
        super().__init__(backup_dir)
        self._run = current()

    def on_train_begin(self, logs: Any = None) -> None:
        """Go on from the last checkpoint."""
        put_back(self._run, Path(self.backup_dir))
        super().on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """No epoch that is begun will be saved any more."""
        super().on_train_batch_end(batch, logs)
        if self._run.was_signalled:
            self._run.stop_now()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The epoch's metrics, and its save."""
        super().on_epoch_end(epoch, logs)
        done = epoch + 1
        self._run.report(step=done, total_steps=self.params["epochs"], epoch=done, **numbers(logs))
        hand_in(self._run, step=done, source=Path(self.backup_dir))
        if agreed(self._run.should_stop):
            self._run.stop_now()
