"""Dask from a cell: its workers run on idle GPUs of the team, or borrowed ones, and come back after a stop.

Needs the extra `dask`. Each call below is a task; with `torch` or `cupy` in it, it computes on its worker's GPU.
"""

import sys

from gpucommons.scheduler.adapters.dask import DaskCluster


def error_of(slope: float) -> float:
    """How far a line through the origin is from three points."""
    return sum((slope * x - y) ** 2 for x, y in ((1, 2.1), (2, 3.9), (3, 6.2)))


def main(team: str | None = None) -> None:
    """In a notebook its lines are the cell. A team is named by who is in several."""
    with DaskCluster(1, 4, gpus=0.5, memory_gib=1, team=team) as cluster:
        slopes = [step / 10 for step in range(10, 31)]
        client = cluster.get_client()
        errors = client.gather(client.map(error_of, slopes))
        print(f"best slope {slopes[errors.index(min(errors))]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
