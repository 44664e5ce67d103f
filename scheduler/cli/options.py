"""What options of several commands have in common: kinds of values, and where the scheduler is."""

from __future__ import annotations

import argparse

_MIB_PER_GIB = 1024
#: More than the largest number any option takes; the scheduler knows the limit of each.
_MOST = 2**31 - 1


def shared() -> argparse.ArgumentParser:
    """Of each command that asks the scheduler."""
    found = argparse.ArgumentParser(add_help=False, parents=[output()])
    found.add_argument(
        "--url", help="the scheduler's URL (default: GPUCOMMONS_URL, else this machine's)"
    )
    found.add_argument("--state", help="state folder of `gpucommons up` on this machine")
    return found


def output() -> argparse.ArgumentParser:
    """How the answer is printed."""
    found = argparse.ArgumentParser(add_help=False)
    found.add_argument("--output", choices=("text", "json"), default="text")
    return found


def add_max_mib(command: argparse.ArgumentParser) -> None:
    """Up to how large a folder goes along with a job: the same for whatever the job is part of."""
    from gpucommons.scheduler.client.snapshot import MAX_SNAPSHOT_BYTES  # noqa: PLC0415 - slow

    most = MAX_SNAPSHOT_BYTES >> 20
    command.add_argument(
        "--max-mib",
        type=positive,
        default=most,
        help=f"largest folder that goes along (default: {most})",
    )


def positive(text: str) -> int:
    """A number that counts something, as written."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MOST):
        message = f"{text!r} is not a number from 1 to {_MOST:,}."
        raise argparse.ArgumentTypeError(message)
    return int(text)


def gib(text: str) -> int:
    """A number of GiB as written, in MiB."""
    try:
        mib = round(float(text.lower().removesuffix("gib").strip()) * _MIB_PER_GIB)
    except (ValueError, OverflowError):
        mib = 0
    if not 0 < mib <= 1 << 30:
        message = f"{text!r} is not an amount of memory: write a number of GiB, for example 12.5."
        raise argparse.ArgumentTypeError(message)
    return mib
