"""Workers on several nodes fit one line together: each has its share of the points.

In every step they meet at rank 0, which is found by its name, add up their slopes, and get the new
line back. The sums are in the order of ranks, so a run that was stopped and resumed ends with the
same numbers as one that was not.
"""

import argparse
import json
import os
import socket
import time

import numpy as np

from gpucommons.scheduler import training

RATE, POINTS = 0.2, 400


def share(rank: int, world_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The points of one worker."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, POINTS)
    y = 3 * x - 1 + rng.normal(0, 0.1, POINTS)
    return x[rank::world_size], y[rank::world_size]


def slopes(line: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How the squared error of these points changes with the line, and the error itself."""
    wrong = line[0] * x + line[1] - y
    return np.array([(2 * wrong * x).sum(), (2 * wrong).sum(), (wrong**2).sum()]) / POINTS


class Meeting:
    """Lines of JSON between rank 0 and all others."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.streams = self._accept(world_size - 1) if rank == 0 else [self._connect()]

    def _accept(self, count: int) -> list:
        server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
        found = [server.accept()[0].makefile("rw") for _ in range(count)]
        return sorted(found, key=lambda stream: int(stream.readline()))

    def _connect(self):
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        while True:  # a fresh pod's name may not be known yet
            try:
                stream = socket.create_connection(address, timeout=60).makefile("rw")
            except OSError:
                time.sleep(0.2)
            else:
                stream.write(f"{self.rank}\n")
                stream.flush()
                return stream

    def gather(self, mine: np.ndarray) -> list[np.ndarray]:
        """All workers' numbers, at rank 0."""
        return [mine, *(np.array(json.loads(stream.readline())) for stream in self.streams)]

    def tell(self, message: object) -> None:
        """One message to whoever is at the other end."""
        for stream in self.streams:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

    def hear(self) -> object:
        """What rank 0 says."""
        return json.loads(self.streams[0].readline())


def train(steps: int, seconds_per_step: float) -> None:
    """All steps, from the last checkpoint on."""
    run = training.current()
    rank, world_size = run.place.rank, run.place.world_size
    x, y = share(rank, world_size)
    line, done = np.zeros(2), run.resume_step()
    if run.resume_dir is not None:
        line = np.array(json.loads((run.resume_dir / "line.json").read_text()))
        print(f"rank {rank} resumed from step {done}", flush=True)
    meeting = Meeting(rank, world_size)
    print(f"rank {rank} on {socket.gethostname()} met {world_size - 1} other(s)", flush=True)
    for step in range(done + 1, steps + 1):
        mine = slopes(line, x, y)
        if rank > 0:
            meeting.tell(list(mine))
            line, stop = (np.array(part) for part in meeting.hear())
        else:
            total = np.sum(meeting.gather(mine), axis=0)
            line = line - RATE * total[:2]
            stop = run.should_stop and step < steps
            with run.checkpoint(step=step) as folder:
                (folder / "line.json").write_text(json.dumps(list(line)))
            run.report(step=step, total_steps=steps, loss=float(total[2]))
            meeting.tell([list(line), stop])
            print(f"step {step}  error {total[2]:.6f}", flush=True)
        if stop:
            print(f"rank {rank} stops after step {step}, as asked", flush=True)
            run.stop_now()
        run.wait(seconds_per_step)
    if rank == 0:
        result = json.dumps({"steps": steps, "line": [round(part, 12) for part in line]})
        (run.results_dir / "line.json").write_text(result + "\n")
        print(result, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seconds-per-step", type=float, default=0.5)
    arguments = parser.parse_args()
    train(arguments.steps, arguments.seconds_per_step)
