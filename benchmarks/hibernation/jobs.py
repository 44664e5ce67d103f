"""Scripts without a line for us, stopped three times: which steps are done twice, and how long it takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.real_scripts import environment
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused

_TIMES = 3
_SECONDS = 300
_MIB = 1 << 20
_STEPS = 400

#: A pool of processes and a child at the end of a pipe, with 200 MB.
_PLAIN = """
import multiprocessing, os, subprocess, sys
if __name__ == "__main__":
    memory = os.urandom(1 << 20) * 200
    total = 0
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in range(int(sys.argv[1])):
            child.stdin.write(b"%d\\n" % step)
            child.stdin.flush()
            total += sum(pool.map(abs, range(-step, 0))) + int(child.stdout.readline()) + memory[step]
            print("step", step, flush=True)
            __import__("time").sleep(0.01)
    print("final", total - sum(memory[:step + 1]), flush=True)
"""
#: As a tutorial trains digits, on numbers made by a fixed seed.
_TORCH = """
import sys, torch
torch.manual_seed(7)
torch.set_num_threads(2)
torch.use_deterministic_algorithms(True)
images, labels = torch.randn(2000, 1, 28, 28), torch.randint(0, 10, (2000,))
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(16 * 13 * 13, 10),
)
optimizer = torch.optim.Adam(model.parameters())
for step in range(int(sys.argv[1])):
    pick = torch.randint(0, 2000, (32,))
    loss = torch.nn.functional.cross_entropy(model(images[pick]), labels[pick])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, flush=True)
print("final", loss.item(), flush=True)
"""


def job_rows(criu: Criu, place: Path) -> Iterator[dict[str, object]]:
    """One row a script; torch's where the frameworks' environment is built."""
    yield _row("several processes", sys.executable, _PLAIN, criu, place)
    found = environment.find()
    if found is None:
        sys.stderr.write(f"skipped: torch ({environment.HOW_TO_GET})\n")
        return
    yield _row("torch", str(found / "bin" / "python"), _TORCH, criu, place)


def _row(name: str, python: str, code: str, criu: Criu, place: Path) -> dict[str, object]:
    script = place / f"script-{len(name)}.py"  # no name of a module
    script.write_text(code)
    command = [python, "-u", str(script), str(_STEPS)]
    whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    tree = HibernatableTree(place / f"tree-{script.stem}", criu)
    tree.folder.mkdir(mode=0o700)
    lines: list[str] = []
    saves: list[float] = []
    wakes: list[float] = []
    image_mib = 0
    process = _started(tree.run_command(command))
    for number in range(_TIMES):
        _read_until(process, lines, _STEPS * (number + 1) // (_TIMES + 1))
        begun = time.monotonic()
        answer = tree.save(_SECONDS)
        saves.append(time.monotonic() - begun)
        if isinstance(answer, Refused):
            sys.exit(f"{name}: {answer.because}")
        image_mib = max(image_mib, answer.image_bytes // _MIB)
        _read_until(process, lines, None)
        begun = time.monotonic()
        process = _started(tree.wake_command())
        assert process.stdout is not None
        lines.append(process.stdout.readline().strip())
        wakes.append(time.monotonic() - begun)
    _read_until(process, lines, None)
    steps = [line for line in lines if line.startswith("step")]
    return {
        "what": "job",
        "script": name,
        "times_stopped": _TIMES,
        "steps_repeated": len(steps) - len(set(steps)),
        "final_equal": lines[-1] == whole[-1] and len(set(steps)) == _STEPS,
        "save_s": round(max(saves), 2),
        "image_mib": image_mib,
        "wake_to_log_s": round(max(wakes), 2),
    }


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    )


def _read_until(process: subprocess.Popen[str], lines: list[str], count: int | None) -> None:
    """Read lines until there are so many, or until the program ended."""
    assert process.stdout is not None
    while count is None or len(lines) < count:
        line = process.stdout.readline()
        if not line:
            process.stdout.close()
            process.wait()
            return
        lines.append(line.strip())
