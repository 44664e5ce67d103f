"""Node and pod lists in the columns of the openb traces."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.packing.asks import Ask

#: More devices in one node than any machine has: a slip in the file.
MAX_DEVICES = 64


class BadTrace(Exception):
    """A trace file does not say what it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """One machine."""

    name: str
    cpu_milli: int
    memory_mib: int
    devices: int
    kind: str


def read_nodes(path: Path) -> tuple[TraceNode, ...]:
    """Read a node list."""
    nodes = tuple(
        TraceNode(
            name=row["sn"],
            cpu_milli=_number(path, line, row, "cpu_milli"),
            memory_mib=_number(path, line, row, "memory_mib"),
            devices=_number(path, line, row, "gpu", most=MAX_DEVICES),
            kind=row["model"],
        )
        for line, row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    )
    if not any(node.devices for node in nodes):
        raise BadTrace(f"{path}: no node with a GPU; give a node list with at least one.")
    return nodes


def read_pods(path: Path) -> tuple[Ask, ...]:
    """Read a pod list; a list without the column gpu_spec has pods for any kind."""
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    pods = tuple(_ask(path, line, row) for line, row in _rows(path, columns))
    if not any(pod.devices for pod in pods):
        raise BadTrace(f"{path}: no pod asks for a GPU; demand can never reach the cluster's.")
    return pods


def _ask(path: Path, line: int, row: dict[str, str]) -> Ask:
    devices = _number(path, line, row, "num_gpu", most=MAX_DEVICES)
    milli = _number(path, line, row, "gpu_milli", most=WHOLE_MILLI_GPU)
    if devices == 0:
        milli = 0
    elif milli == 0 or (devices > 1 and milli < WHOLE_MILLI_GPU):
        raise BadTrace(
            f"{path}, line {line}: {devices} GPUs of {milli} milli each;"
            f" a share is 1 to {WHOLE_MILLI_GPU} milli of one GPU, several GPUs are whole."
        )
    kinds = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
    return Ask(
        devices,
        milli,
        _number(path, line, row, "cpu_milli"),
        _number(path, line, row, "memory_mib"),
        kinds if devices else (),
    )


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise BadTrace(f"{path}: no column {', '.join(missing)}; see the openb traces.")
            for row in reader:
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTrace(f"{path}: can't be read: {error}") from error


def _number(path: Path, line: int, row: dict[str, str], name: str, most: int = 1 << 40) -> int:
    text = row[name] or ""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= most:
        raise BadTrace(f"{path}, line {line}: {name} is {text!r}; a number from 0 to {most}.")
    return value
