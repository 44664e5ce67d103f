"""What the compilers make of the shim: on old systems too, and clean under every check."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.shim import building

MOST_LINES = 1000
_MACHINE_CODES = {62: "x86_64", 183: "aarch64"}


def needed_glibc(library: Path) -> set[tuple[int, int]]:
    """The glibc versions that a library names."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    return {(int(major), int(minor)) for major, minor in found}


def test_it_is_small() -> None:
    lines = [
        line
        for source in building.SOURCES.glob("*.[ch]")
        for line in re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.DOTALL).splitlines()
        if line.strip()
    ]

    assert len(lines) <= MOST_LINES


def test_every_source_says_why_it_exists() -> None:
    for source in building.SOURCES.glob("*.[ch]"):
        assert source.read_text().startswith("/* "), source.name


@pytest.mark.parametrize("name", [building.CUDA, building.NVML])
def test_it_runs_on_old_systems(shim_libraries: Path, name: str) -> None:
    versions = needed_glibc(shim_libraries / name)

    assert versions
    assert max(versions) <= building.OLDEST_GLIBC


def test_it_stands_before_the_drivers_own(shim_libraries: Path) -> None:
    data = (shim_libraries / building.CUDA).read_bytes()

    assert _MACHINE_CODES[struct.unpack_from("<H", data, 18)[0]] == platform.machine()
    for word in (b"libcuda-real.so.1\0", b"libcuda.so.1\0", b"$ORIGIN\0"):
        assert word in data


@pytest.mark.parametrize("machine", building.MACHINES)
def test_zig_builds_it_for_both_architectures(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed")
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))

    folder = building.build(tmp_path, machine=machine)

    data = (folder / building.CUDA).read_bytes()
    assert _MACHINE_CODES[struct.unpack_from("<H", data, 18)[0]] == machine
    assert max(needed_glibc(folder / building.CUDA)) <= building.OLDEST_GLIBC


def test_without_a_compiler_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    with pytest.raises(building.CannotBuildShim, match=r"install gcc, or `pip install ziglang`"):
        building.build(tmp_path)


@pytest.mark.parametrize(("system", "machine"), [("darwin", "x86_64"), ("linux", "riscv64")])
def test_elsewhere_it_says_where_it_works(
    system: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)

    with pytest.raises(building.CannotBuildShim, match="Linux on x86_64 and aarch64"):
        building.compiler(machine)


def test_an_error_of_the_compiler_is_shown(tmp_path: Path, needs_compiler: None) -> None:
    with pytest.raises(building.CannotBuildShim, match="no-such-file"):
        building.build(tmp_path, flags=["-include", "no-such-file"])
    assert not list(tmp_path.iterdir())


def test_a_change_of_the_sources_is_noticed(
    shim_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "src"
    shutil.copytree(building.SOURCES, copy)
    monkeypatch.setattr(building, "SOURCES", copy)
    newest = max(path.stat().st_mtime for path in shim_libraries.iterdir())
    oldest = min(path.stat().st_mtime for path in shim_libraries.iterdir())
    for path in copy.iterdir():
        os.utime(path, (oldest - 1, oldest - 1))
    assert building.built()

    os.utime(copy / "table.c", (newest + 1, newest + 1))
    assert not building.built()
    assert not building.built(tmp_path / "nothing-here")


# --- sanitizers --------------------------------------------------------------------------------


def sanitized(name: str, folder: Path, build_machine: Callable[..., Any]) -> Any:
    """The card, the programs and the shim, all with this sanitizer; skips where it is missing."""
    flags = [f"-fsanitize={name}", "-g", "-fno-omit-frame-pointer"]
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(
        [*building.compiler(), *flags, str(probe), "-o", str(folder / "probe")],
        capture_output=True,
        check=False,
    )
    # The sanitizers want to lie at fixed addresses, which some kernels' random layout takes.
    fixed = [shutil.which("setarch") or "env", *(["-R"] if shutil.which("setarch") else [])]
    ran = built.returncode == 0 and subprocess.run(
        [*fixed, str(folder / "probe")], capture_output=True, check=False
    )
    if not ran or ran.returncode:
        pytest.skip(f"the compiler here has no working {name} sanitizer")
    building.build(folder / "lib", flags=flags)
    return build_machine(folder / "machine", flags), fixed


@pytest.mark.parametrize("name", ["address,undefined", "thread"])
def test_random_work_is_clean(
    name: str, tmp_path: Path, build_machine: Callable[..., Any], needs_compiler: None
) -> None:
    machine, fixed = sanitized(name, tmp_path, build_machine)
    machine.put_card(16 << 10)
    folder = machine.slice(tmp_path / "slice", 4 << 10)
    shutil.copyfile(tmp_path / "lib" / building.CUDA, folder / building.CUDA)
    env = machine.env(folder, TSAN_OPTIONS="exitcode=66", ASAN_OPTIONS="exitcode=66")
    # Threads share a process; processes share a ledger, and fork.
    for threads, operations in ((8, 150), (1, 200)):
        started = [
            subprocess.Popen(
                [*fixed, machine.programs / "soak", str(seed), str(operations), str(threads)],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for seed in (1, 2)
        ]
        for process in started:
            _, complaints = process.communicate(timeout=100)
            assert (process.returncode, complaints) == (0, "")
    assert 0 < machine.peak_mib <= 4096
    view = shim.read_ledger(folder)
    assert view is not None
    assert view.used_bytes == 0
