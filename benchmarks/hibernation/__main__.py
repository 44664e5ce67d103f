"""Saving and waking, measured: ``python -m benchmarks.hibernation [--json OUT] [--only WHAT …]``.

``job``: a script without a line for us is saved and woken three times; ``large``: a job of 2 GB, and
the disk's own speed beside; ``kernel``: a notebook's kernel with 200 MB of variables; ``victims``: ten
jobs of 1 GB that are stopped together; ``refused``: what holds something that no image can hold, until
that is known; ``kills``: whoever saves and wakes is killed at any moment;
``services``: the same of jobs of a real scheduler, with its agent and the jobs' supervisors;
``safety``: what a hostile user tries; ``idle``: what the limits lose of pretended idle sessions. Figures
are of this machine's disk, which the row names. Exit code 1 where a step was repeated, a variable or a
job was lost, a GPU was free too late, or a try got through.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import results
from benchmarks.hibernation import from_outside, hostile
from benchmarks.hibernation.idle import idle_row
from benchmarks.hibernation.jobs import job_rows
from benchmarks.hibernation.kernels import kernel_row
from benchmarks.hibernation.kills import kills_row
from benchmarks.hibernation.refusals import refused_row
from benchmarks.hibernation.services import services_row
from benchmarks.hibernation.victims import large_rows, victims_row
from gpucommons.gpu.hibernation.criu import Criu, find_criu
from gpucommons.gpu.hibernation.self_test import NO_CRIU, self_test

WHAT = ("job", "large", "kernel", "victims", "refused", "kills", "services", "safety", "idle")
_HISTORIES = 24
_OPEN_TO_ALL = 0o755


def main() -> int:
    """Measure what was asked for."""
    arguments = _parse()
    criu = find_criu(os.environ)
    if criu is None:
        sys.exit(NO_CRIU)
    held = True
    with tempfile.TemporaryDirectory(prefix="hibernation-") as place:
        ability = self_test(criu, Path(place))
        if not ability.can_hibernate:
            sys.exit(ability.because)
        machine = {"criu": criu.version, "disk_mib_per_s": ability.disk_mib_per_s}
        rate = min(ability.save_mib_per_s, ability.disk_mib_per_s)
        for row in _rows(criu, Path(place), arguments, rate):
            line = {**row, **machine}
            print(json.dumps(line), flush=True)
            results.append(arguments.json, line)
            held = held and not (row.get("steps_repeated") or row.get("escapes"))
            held = held and not (row.get("doubled") or row.get("lost"))
            held = held and row.get("final_equal") is not False
            held = held and row.get("in_grace") is not False
            held = held and row.get("variables_equal") is not False
    return 0 if held else 1


def _rows(
    criu: Criu, place: Path, arguments: argparse.Namespace, rate: int
) -> Iterator[dict[str, object]]:
    only: list[str] = arguments.only
    if "job" in only:
        yield from job_rows(criu, place)
    if "large" in only:
        yield from large_rows(criu, place)
    if "kernel" in only:
        yield kernel_row(criu, place)
    if "victims" in only:
        yield victims_row(criu, place, rate)
    if "refused" in only:
        yield refused_row(criu, place)
    if "kills" in only:
        yield kills_row(criu, place, _seeds(arguments))
    if "services" in only:
        yield services_row(_seeds(arguments))
    if "safety" in only:
        yield _safety(criu, place)
    if "idle" in only:
        yield idle_row()


def _safety(criu: Criu, place: Path) -> dict[str, object]:
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        sys.exit("As root the tries need setpriv(1), to be an ordinary user's.")
    place.chmod(_OPEN_TO_ALL)
    escapes: dict[str, str] = {}
    tries = [(play, False, False) for play in hostile.TRIES]
    if os.geteuid() == 0:
        by_root = (*hostile.TRIES, *hostile.TRIES_BY_ROOT)
        tries += [(play, True, False) for play in (*by_root, *from_outside.TRIES)]
        tries += [(play, True, True) for play in (*by_root, from_outside.pid_one_from_outside)]
    for play, is_by_root, forbidden in tries:
        name = f"{play.__name__}{' by root' * is_by_root}{' without namespaces' * forbidden}"
        folder = place / name.replace(" ", "-")
        folder.mkdir()
        with hostile.ground(folder, criu, by_root=is_by_root, forbidden=forbidden) as ground:
            got = play(ground)
        if got is not None:
            escapes[name] = got
    return {"what": "safety", "tries": len(tries), "escapes": len(escapes), "got": escapes}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hibernation", description=__doc__)
    parser.add_argument("--json", type=Path, help="append the rows to this file")
    parser.add_argument("--only", nargs="*", choices=WHAT, default=list(WHAT))
    parser.add_argument(
        "--histories", type=int, default=_HISTORIES, help="of each of the rows with kills"
    )
    parser.add_argument("--first", type=int, default=0, help="seed of the first of them")
    return parser.parse_args()


def _seeds(arguments: argparse.Namespace) -> range:
    return range(arguments.first, arguments.first + arguments.histories)


if __name__ == "__main__":
    sys.exit(main())
