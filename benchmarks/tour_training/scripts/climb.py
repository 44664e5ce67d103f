"""Stands for a training: each step takes its time, which the workers share, and tells a score."""

import argparse

from gpucommons.scheduler import training

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--seconds", type=float, default=0.3)
parser.add_argument("--save-every", type=int, default=1)
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--width", type=int, default=64)
asked = parser.parse_args()
run = training.current()
run.on_sigterm()


def save(step):
    """With a receipt."""
    with run.checkpoint(step=step) as folder:
        (folder / "step").write_text(str(step))


best = 1 / (1 + abs(asked.rate - 0.03) + abs(asked.momentum - 0.9) + abs(asked.width - 128) / 128)
saved = run.resume_step()
for step in range(saved + 1, asked.steps + 1):
    run.wait(asked.seconds / run.place.world_size)
    if run.should_stop:
        if saved < step - 1:
            save(step - 1)
        run.stop_now()
    if step % asked.save_every == 0:
        save(saved := step)
    run.report(step=step, total_steps=asked.steps, score=best * step / (step + 1))
    print(f"step {step} of {asked.steps}", flush=True)
run.finished()
