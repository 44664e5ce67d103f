"""Gangs for the tests of launchers."""

from __future__ import annotations

from gpucommons.scheduler.launchers import Gang, Worker

TRAIN = ("python", "-u", "train.py", "--lr", "3")


def a_gang(
    *roles: str, gpus: int = 1, command: tuple[str, ...] = TRAIN, address: str = "host-{}"
) -> Gang:
    """Workers of these roles, two where none is named; each has three ports."""
    named = roles or ("worker", "worker")
    workers = tuple(
        Worker(
            rank=rank,
            role=role,
            index=named[:rank].count(role),
            address=address.format(rank),
            ports=(7000 + rank, 8000 + rank, 9000 + rank),
            gpus=gpus,
            command=command,
        )
        for rank, role in enumerate(named)
    )
    return Gang(workers=workers)
