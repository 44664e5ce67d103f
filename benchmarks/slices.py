"""What the shim catches, what it costs, and whether its account is ever wrong.

``python -m benchmarks.slices [--operations 10000] [--agent-seconds 20] [--json OUT]`` needs a C
compiler and no GPU: the driver is the pretended one of the tests, whose card remembers the most
that was ever in use. It compares with the two designs that others use, an interposer that is
preloaded, alone and with a hook of ``dlsym``. What the agent costs is ``benchmarks.agent_cost``,
what it costs a notebook's server ``benchmarks.responsiveness``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import agent_cost, responsiveness
from gpucommons.gpu import shim
from gpucommons.gpu.shim import building
from gpucommons.gpu.shim.audit import hooks

_MACHINE = Path(__file__).parents[1] / "tests" / "gpu" / "fake_cuda" / "machine.py"

ROUTES = {
    "a": "linked",
    "b": "dlopen + dlsym",
    "c": "cuGetProcAddress",
    "d": "RTLD_DEEPBIND",
    "e": "plugin, DEEPBIND",
    "f": "dlmopen",
    "g": "the driver's full path",
}
#: The route that no library can close: a mount over the driver's path does, in a container.
OPEN_ROUTE = "g"
CARD_MIB, SLICE_MIB, FITS_MIB, TOO_MUCH_MIB = 16384, 4096, 3000, 8192
DENIED, GIVEN = 2, 0
PAIRS, ROUNDS = 500_000, 7
WORKERS, VICTIMS = 8, 4
_VICTIM_SECONDS = 0.5
AGENT_SLICES, AGENT_PROCESSES = 16, 160
STATUS_REQUESTS = 300
_ENDLESS = 10_000_000


def routes(machine: Any, folder: Path) -> dict[str, dict[str, str]]:
    """Of each design, what becomes of a request that is too large, by route."""
    designs: dict[str, dict[str, str]] = {
        "nothing": machine.env(None),
        "preload": machine.env(None, LD_PRELOAD=str(machine.programs / "preload.so")),
        "preload + dlsym hook": machine.env(None, LD_PRELOAD=str(machine.programs / "dlsym.so")),
        "shim": machine.env(machine.slice(folder / "routes", SLICE_MIB)),
    }
    return {
        design: {route: _answer(machine, route, env) for route in ROUTES}
        for design, env in designs.items()
    }


def _answer(machine: Any, route: str, env: dict[str, str]) -> str:
    machine.put_card(CARD_MIB)
    large = machine.route(route, TOO_MUCH_MIB, env)
    small = machine.route(route, FITS_MIB, env)
    if small != GIVEN:
        return "broken"
    return {DENIED: "denied", GIVEN: "bypass"}.get(large, "broken")


def overhead_us(machine: Any, folder: Path, members: int) -> float:
    """What one allocation and its release take longer in a slice of so many processes."""
    made = machine.slice(folder / f"pairs-{members}", SLICE_MIB)
    machine.put_card(CARD_MIB)
    others = [machine.client(made) for _ in range(members - 1)]
    try:
        # Alternating, and the best of each: what else the machine does slows both.
        plain, shimmed = zip(
            *((_pair_ns(machine, None), _pair_ns(machine, made)) for _ in range(ROUNDS)),
            strict=True,
        )
    finally:
        for other in others:
            other.kill()
    return round((min(shimmed) - min(plain)) / 1000, 3)


def _pair_ns(machine: Any, library_path: Path | None) -> float:
    done = subprocess.run(
        [machine.programs / "pairs", str(PAIRS)],
        env=machine.env(library_path, FAKE_CUDA_ALONE="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def soak(machine: Any, folder: Path, operations: int) -> dict[str, float]:
    """Random work of eight processes that fork, beside others that are killed all the time."""
    made = machine.slice(folder / "soak", SLICE_MIB)
    machine.put_card(CARD_MIB)
    chance = random.Random(1)  # noqa: S311 - the same kills every time

    def start(count: int, seed: int) -> subprocess.Popen[bytes]:
        command = [machine.programs / "soak", str(seed), str(count), "1"]
        return subprocess.Popen(command, env=machine.env(made), stdout=subprocess.PIPE)

    workers = [start(operations, seed) for seed in range(WORKERS)]
    victims = [start(_ENDLESS, 100 + seed) for seed in range(VICTIMS)]
    kills = 0
    while any(worker.poll() is None for worker in workers):
        time.sleep(chance.uniform(0, _VICTIM_SECONDS))
        place = chance.randrange(VICTIMS)
        _end(victims[place])
        kills += 1
        victims[place] = start(_ENDLESS, 1000 + kills)
    for victim in victims:
        _end(victim)
    refused = sum(int(worker.communicate()[0]) for worker in workers)
    assert all(worker.returncode == 0 for worker in workers)
    last = machine.client(made)  # clears the slots of the dead, as any process does that joins
    view = shim.read_ledger(made)
    assert view is not None
    last.kill()
    return {
        "soak_operations": operations * WORKERS,
        "soak_kills": kills,
        "soak_refused": refused,
        "soak_peak_over_limit_mib": max(0.0, machine.peak_mib - SLICE_MIB),
        "soak_end_mib": view.used_bytes / machine_module().MIB,
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def machine_module() -> ModuleType:
    """The tests' pretended machine."""
    name = "fake_cuda_machine"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _MACHINE)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def measure(operations: int, say: Callable[[str], None]) -> dict[str, Any]:
    """All of it."""
    if not building.built():
        building.build()
    with tempfile.TemporaryDirectory(prefix="gc") as scratch:
        folder = Path(scratch)
        machine = machine_module().build(folder / "machine")
        found = routes(machine, folder)
        say(_matrix(found))
        results: dict[str, Any] = {
            "routes": found,
            "routes_denied": _denied(found["shim"]),
            "routes_denied_preload": _denied(found["preload"]),
            "routes_denied_dlsym_hook": _denied(found["preload + dlsym hook"]),
            "alloc_free_pair_overhead_us": overhead_us(machine, folder, 1),
            "alloc_free_pair_overhead_8_processes_us": overhead_us(machine, folder, 8),
            "kernel_launch_hooks": sum("Launch" in name for name in hooks()),
        }
        return results | soak(machine, folder, operations)


def _denied(answers: dict[str, str]) -> int:
    return sum(answer == "denied" for route, answer in answers.items() if route != OPEN_ROUTE)


def _matrix(found: dict[str, dict[str, str]]) -> str:
    lines = [f"{'':26}" + "".join(f"{design:>22}" for design in found)]
    for route, name in ROUTES.items():
        answers = "".join(f"{answers[route]:>22}" for answers in found.values())
        lines.append(f"{route} {name:24}{answers}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=10_000, help="of each process")
    parser.add_argument("--agent-seconds", type=int, default=20, help="0 leaves the agent out")
    parser.add_argument("--json", type=Path, default=None, metavar="OUT")
    options = parser.parse_args()
    try:
        results = measure(options.operations, print)
    except building.CannotBuildShim as error:
        sys.exit(str(error))
    if options.agent_seconds:
        cost = agent_cost.measure(AGENT_SLICES, AGENT_PROCESSES, options.agent_seconds)
        results["agent_core_percent"] = cost["cpu_percent"]
        results["agent_rss_mib"] = cost["rss_mib"]
        results |= responsiveness.measure(STATUS_REQUESTS)
    results["cores"] = len(os.sched_getaffinity(0))
    print(json.dumps({k: v for k, v in results.items() if k != "routes"}, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
