"""A first training job that needs nothing but Python: fit a line by gradient descent.

It prints its loss after each epoch and saves its state in its own folder, as most scripts do. Stopped
and started again, it finds the file and goes on.
"""

import json
import math
import time
from pathlib import Path

EPOCHS = 20
STATE = Path("state.json")


def main():
    points = [(x / 200, 3 * x / 200 + 1 + 0.1 * math.sin(37 * x)) for x in range(200)]
    state = {"epoch": 0, "slope": 0.0, "offset": 0.0}
    if STATE.exists():
        state = json.loads(STATE.read_text())
        print(f"goes on after epoch {state['epoch']}", flush=True)
    while state["epoch"] < EPOCHS:
        loss = one_epoch(state, points)
        state["epoch"] += 1
        save(state)
        print(f"epoch {state['epoch']} of {EPOCHS}  loss {loss:.4f}", flush=True)
        time.sleep(1)


def one_epoch(state, points):
    total = 0.0
    for x, y in points:
        error = state["slope"] * x + state["offset"] - y
        state["slope"] -= 0.05 * error * x
        state["offset"] -= 0.05 * error
        total += error * error
    return total / len(points)


def save(state):
    # Under its name only when it is whole: a stop in between leaves the one before.
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(STATE)


if __name__ == "__main__":
    main()
