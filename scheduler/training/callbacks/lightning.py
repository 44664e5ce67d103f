"""Lightning: ``Follow()`` among the trainer's ``callbacks``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import OnExceptionCheckpoint

from gpucommons.scheduler.training import current
from gpucommons.scheduler.training.callbacks.handing_in import agreed, hand_in, numbers, put_back


class Follow(OnExceptionCheckpoint):  # type: ignore[misc] # nothing is known of Lightning here
    """Saves after each epoch and hands it in; leaves at a stop once the epoch is saved.

    Lightning goes on by itself from the file of this kind of callback, and removes it at the end of a fit.
    """

    def __init__(
        self, dirpath: str = ".", filename: str = "gpucommons", *, keeps_batch: bool = True
    ) -> None:
        super().__init__(dirpath, filename)
        self._run, self._keeps_batch = current(), keeps_batch
        put_back(self._run, Path(self.ckpt_path))

    def setup(self, trainer: Any, *about: Any, **others: Any) -> None:
        """The global batch stays where fewer processes run than were submitted."""
        super().setup(trainer, *about, **others)
        if self._keeps_batch:
            trainer.accumulate_grad_batches *= self._run.micro_steps
            self._keeps_batch = False  # of each fit, once

    def on_exception(self, *_about: Any, **_others: Any) -> None:
        """What fails is no state to go on from."""

    def on_train_batch_end(self, *_about: Any, **_others: Any) -> None:
        """No epoch that is begun will be saved any more."""
        if self._run.was_signalled:
            self._run.stop_now()

    def on_train_epoch_end(self, trainer: Any, _module: Any) -> None:
        """The epoch's metrics, and its save."""
        epoch = trainer.current_epoch + 1
        total = trainer.max_epochs if (trainer.max_epochs or 0) >= epoch else None
        metrics = numbers(trainer.callback_metrics)
        self._run.report(step=epoch, total_steps=total, epoch=epoch, **metrics)
        trainer.save_checkpoint(self.ckpt_path)
        hand_in(self._run, step=epoch, source=Path(self.ckpt_path))
        if agreed(self._run.should_stop):
            self._run.stop_now()
