"""Ray from a cell: its workers run on idle GPUs of the team, or borrowed ones, and come back after a stop.

Needs the extra `ray`. Each call below is a task; with `torch` or `cupy` in it, it computes on its worker's GPU.
"""

import sys

import ray

from gpucommons.scheduler.adapters.ray import RayCluster


@ray.remote(num_gpus=1)
def error_of(slope: float) -> float:
    """How far a line through the origin is from three points."""
    return sum((slope * x - y) ** 2 for x, y in ((1, 2.1), (2, 3.9), (3, 6.2)))


def main(team: str | None = None) -> None:
    """In a notebook its lines are the cell. A team is named by who is in several."""
    with RayCluster(1, 4, gpus=0.5, memory_gib=1, team=team):
        slopes = [step / 10 for step in range(10, 31)]
        errors = ray.get([error_of.remote(slope) for slope in slopes])
        print(f"best slope {slopes[errors.index(min(errors))]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
