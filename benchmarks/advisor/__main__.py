"""Run all tables; see the package."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks import results
from benchmarks.advisor import (
    amp,
    clocks,
    coverage,
    early,
    foundry,
    golden,
    llama_tables,
    megatron,
    real_torch,
    sia,
)
from benchmarks.advisor.setting import TABLES, Figure

_PARTS = ("tables", "golden", "public", "clock", "torch")


def main(arguments: list[str] | None = None) -> int:
    """Print each figure and write them all."""
    parser = argparse.ArgumentParser(prog="advisor")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tables", type=Path, default=TABLES, help="folder of tables")
    parser.add_argument("--public", type=Path, help="folder with amp/ and sia/")
    parser.add_argument("--traces", type=Path, nargs="+", default=[], help="of clusters, as CSV")
    parser.add_argument(
        "--seeds", type=int, nargs="*", default=clocks.SEEDS, help="of made-up hubs: 1 to 5"
    )
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS, help="default: all")
    asked = parser.parse_args(arguments)
    found: list[Figure] = []
    if "tables" in asked.parts:
        for part in (early, megatron, llama_tables, foundry, coverage):
            found += _said(part.figures(asked.tables))
    if "golden" in asked.parts:
        found += _said(golden.figures())
    if "public" in asked.parts:
        for public in (amp, sia):
            found += _said(public.figures(asked.public))
    if "clock" in asked.parts:
        found += _said(clocks.figures(asked.traces, asked.seeds))
    if "torch" in asked.parts:
        found += _said(real_torch.figures())
    results.write(asked.json, (one.line() for one in found))
    return 0


def _said(figures: list[Figure]) -> list[Figure]:
    for figure in figures:
        missing = "" if figure.value is not None else f"  ({_missing(figure)})"
        print(f"{json.dumps(figure.line())}{missing}", flush=True)
    return figures


def _missing(figure: Figure) -> str:
    if figure.table == "torch":
        return "torch is not here: make setup-frameworks"
    return "its data is not here: --public"


if __name__ == "__main__":
    sys.exit(main())
