"""Writes its scalars to TensorBoard alone, and its state to a file that it opens again."""

import json
import time
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

state = Path("state.json")
first = json.loads(state.read_text())["step"] + 1 if state.exists() else 0
with SummaryWriter("runs") as writer:
    for step in range(first, 80):
        time.sleep(0.2)
        writer.add_scalar("loss/train", 1 / (1 + step), step)
        writer.flush()
        state.write_text(json.dumps({"step": step}))
        print(f"done {step}", flush=True)
Path("model.txt").write_text("trained")
