"""Transformers: ``follow(trainer)``, a line after the trainer was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from gpucommons.scheduler.training import current
from gpucommons.scheduler.training.callbacks.handing_in import agreed, hand_in, numbers

_LOOKS_EVERY = 5  # a step of many processes must not wait for a word of all the others


class Follow(TrainerCallback):  # type: ignore[misc] # nothing is known of Transformers here
    """Tells what the trainer logs, hands in what it saves, and has it save and leave at a stop."""

    def __init__(self) -> None:
        self._run, self._leaves = current(), False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
        """Its metrics, at the step that it has come to."""
        step, total = state.global_step, max(state.global_step, state.max_steps)
        self._run.report(step=step, total_steps=total, **numbers(logs))

    def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        """At a stop: one more save, and no more steps."""
        if state.global_step % _LOOKS_EVERY == 0 and agreed(self._run.should_stop):
            self._leaves = control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        """Its folder ``checkpoint-N`` is whole."""
        if (folder := Path(args.output_dir, f"checkpoint-{state.global_step}")).is_dir():
            hand_in(self._run, step=state.global_step, source=folder)

    def on_train_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        """What follows the training in the script is for one that has finished."""
        if self._leaves:
            self._run.stop_now()


def follow(trainer: Any, *, keeps_batch: bool = True) -> None:
    """Follow a trainer; its ``train()`` goes on from the last checkpoint, unless it is told from which.

    ``keeps_batch``: the global batch stays whatever number of workers an elastic job got.
    """
    run, args = current(), trainer.args
    if keeps_batch:
        args.gradient_accumulation_steps *= run.micro_steps
        args.per_device_train_batch_size = run.batch(args.per_device_train_batch_size)
        trainer._train_batch_size = args.train_batch_size
    begin, kept = trainer.train, run.resume_dir
    saved = None if kept is None else next(kept.glob("checkpoint-*"), None)

    def train(resume_from_checkpoint: Any = None, **options: Any) -> Any:
        return begin(resume_from_checkpoint or (saved and str(saved)), **options)

    trainer.train = train
    trainer.add_callback(Follow())
