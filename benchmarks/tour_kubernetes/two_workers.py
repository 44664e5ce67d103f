"""Workers on several nodes fit one line together: each has its share of the points.

In every step they meet at rank 0, which is found by its name, add up their slopes, and get the new
line back. The sums are in the order of ranks, so a run that was stopped and resumed ends with the
same numbers as one that was not.
"""

import argparse
import json
import os
import random
import socket
import time

from gpucommons.scheduler import training

RATE, POINTS = 0.2, 400


def share(rank: int, world_size: int) -> list[tuple[float, float]]:
    """The points of one worker."""
    drawn = random.Random(7)  # noqa: S311 - the same points in every run
    xs = [drawn.uniform(-1, 1) for _ in range(POINTS)]
    return [(x, 3 * x - 1 + drawn.gauss(0, 0.1)) for x in xs][rank::world_size]


def slopes(line: list[float], points: list[tuple[float, float]]) -> list[float]:
    """How the squared error of these points changes with the line, and the error itself."""
    wrong = [(line[0] * x + line[1] - y, x) for x, y in points]
    sums = (
        sum(2 * w * x for w, x in wrong),
        sum(2 * w for w, _ in wrong),
        sum(w**2 for w, _ in wrong),
    )
    return [one / POINTS for one in sums]


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

    def gather(self, mine: list[float]) -> list[list[float]]:
        """All workers' numbers, at rank 0."""
        return [mine, *(json.loads(stream.readline()) for stream in self.streams)]

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
    points = share(rank, world_size)
    line, done = [0.0, 0.0], run.resume_step()
    if run.resume_dir is not None:
        line = json.loads((run.resume_dir / "line.json").read_text())
        print(f"rank {rank} resumed from step {done}", flush=True)
    meeting = Meeting(rank, world_size)
    print(f"rank {rank} on {socket.gethostname()} met {world_size - 1} other(s)", flush=True)
    for step in range(done + 1, steps + 1):
        mine = slopes(line, points)
        if rank > 0:
            meeting.tell(mine)
            line, stop = meeting.hear()
        else:
            total = [sum(parts) for parts in zip(*meeting.gather(mine), strict=True)]
            line = [old - RATE * slope for old, slope in zip(line, total[:2], strict=True)]
            stop = run.should_stop and step < steps
            with run.checkpoint(step=step) as folder:
                (folder / "line.json").write_text(json.dumps(line))
            run.report(step=step, total_steps=steps, loss=total[2])
            meeting.tell([line, stop])
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
