"""All benchmarks of the scheduling core, each with its JSON and what it printed in one folder.

``python -m benchmarks.suite --traces FOLDER --out build/bench``

What is timed by the clock runs alone. The rest counts processor time or none: two run at a time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

OPENB = ("default", "multigpu50", "gpushare100", "gpuspec33", "cpu200")
#: Timed by the clock.
ALONE = ("throughput", "reclaim")
#: A name, the files it needs and its options.
Run = tuple[str, list[Path], list[str]]


def main(arguments: list[str] | None = None) -> int:
    """Run what can be run; a missing trace is said and skipped."""
    parser = argparse.ArgumentParser(prog="suite", description=__doc__)
    parser.add_argument(
        "--traces", type=Path, required=True, help="folder with openb/, philly-15k/, …"
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    runs = list(plan(asked.traces))
    done = [_run(asked.out, one) for one in runs if one[0] in ALONE]
    with ThreadPoolExecutor(2) as two:
        done += two.map(partial(_run, asked.out), (one for one in runs if one[0] not in ALONE))
    failed = [name for name, code in done if code]
    print(f"== all: {time.monotonic() - began:.0f} s")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(out: Path, run: Run) -> tuple[str, int]:
    """Run one benchmark and print what it printed; its name and exit status."""
    name, files, options = run
    missing = [path for path in files if not path.is_file()]
    if missing:
        print(f"{name}: left out, there is no {missing[0]}. Name the folder: make bench TRACES=…")
        return name, 0
    began = time.monotonic()
    module = name.split("-")[0]
    wanted = ["--json", str((out / f"{name}.json").resolve())]
    command = [sys.executable, "-m", f"benchmarks.{module}", *options, *wanted]
    printed = out / f"{name}.txt"
    with printed.open("w", encoding="utf-8") as to:
        process = subprocess.Popen(command, stdout=to, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = f"{time.monotonic() - began:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of processor"
    text = printed.read_text(encoding="utf-8")
    print(f"== {' '.join(command[1:])}\n{text}== {name}: {took}", flush=True)
    return name, process.returncode


def plan(traces: Path) -> list[Run]:
    """What is run, the longest first: a name that begins with its module's, files and options."""
    openb = traces / "openb"
    nodes = openb / "openb_node_list_gpu_node.csv"
    pods = [openb / f"openb_pod_list_{variant}.csv" for variant in OPENB]
    philly = traces / "philly-15k" / "philly_15k.csv"
    clusters = traces / "philly-vc" / "philly_vc_4206.csv"
    each = [part for path in pods for part in ("--pods", str(path))]
    return [
        ("throughput", [], ["--nodes", "1213,5000", "--pods", "10000"]),
        ("reclaim", [], ["--nodes", "100,500"]),
        ("quota_replay", [philly], ["--trace", str(philly), "--load", "0.85"]),
        ("packing", [nodes, *pods], ["--nodes", str(nodes), *each, "--seeds", "42-51"]),
        ("fairness", [clusters], ["--trace", str(clusters)]),
        ("kueue_shape", [], []),
    ]


if __name__ == "__main__":
    sys.exit(main())
