"""All benchmarks of the scheduling core, one after the other, each with its JSON in one folder.

``python -m benchmarks.suite --traces FOLDER --out build/bench``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

OPENB = ("default", "multigpu50", "gpushare100", "gpuspec33", "cpu200")


def main(arguments: list[str] | None = None) -> int:
    """Run what can be run; a missing trace is said and skipped."""
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument(
        "--traces", type=Path, required=True, help="folder with openb/, philly-15k/, …"
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, files, options in plan(asked.traces):
        missing = [path for path in files if not path.is_file()]
        if missing:
            print(
                f"{name}: left out, there is no {missing[0]}. Name the folder: make bench TRACES=…"
            )
            continue
        began = time.monotonic()
        out = (asked.out / f"{name}.json").resolve()
        module = name.split("-")[0]
        command = [sys.executable, "-m", f"benchmarks.{module}", *options, "--json", str(out)]
        print(f"== {' '.join(command[1:])}", flush=True)
        if subprocess.run(command, check=False).returncode != 0:
            failed.append(name)
        print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def plan(traces: Path) -> list[tuple[str, list[Path], list[str]]]:
    """What is run: a name that begins with its module's, the files it needs, and its options."""
    openb = traces / "openb"
    nodes = openb / "openb_node_list_gpu_node.csv"
    pods = [openb / f"openb_pod_list_{variant}.csv" for variant in OPENB]
    philly = traces / "philly-15k" / "philly_15k.csv"
    clusters = traces / "philly-vc" / "philly_vc_4206.csv"
    each = [part for path in pods for part in ("--pods", str(path))]
    return [
        ("throughput", [], ["--nodes", "1213,5000", "--pods", "10000"]),
        ("reclaim", [], ["--nodes", "100,500"]),
        ("kueue_shape", [], []),
        ("fairness", [clusters], ["--trace", str(clusters)]),
        ("quota_replay", [philly], ["--trace", str(philly), "--load", "0.85"]),
        ("packing", [nodes, *pods], ["--nodes", str(nodes), *each, "--seeds", "42-51"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
