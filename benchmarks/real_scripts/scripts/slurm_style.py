"""As written for Slurm: saves on SIGUSR1 or SIGTERM, leaves with 0, and goes on from its file."""

import json
import os
import signal
import sys
import time
from pathlib import Path

SAVED = Path("ckpt.json")
STEPS = 80
step = json.loads(SAVED.read_text())["step"] + 1 if SAVED.exists() else 0


def save_and_leave(*_):
    SAVED.write_text(json.dumps({"step": step - 1}))
    # Not `print`: the signal may come while another one is at work.
    os.write(1, f"signal: saved step {step - 1}\n".encode())
    sys.exit(0)


signal.signal(signal.SIGUSR1, save_and_leave)
signal.signal(signal.SIGTERM, save_and_leave)
while step < STEPS:
    time.sleep(0.2)
    loss = 1 / (1 + step)
    print(f"step {step} loss={loss:.4f}", flush=True)
    step += 1
Path("model.json").write_text("{}")
