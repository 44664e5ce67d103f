"""The slice's folder as the agent keeps it, whatever the slice's user does with the ledger."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.errors import ShimUnavailable
from gpucommons.gpu.shim import building, folder, layout
from gpucommons.gpu.shim.drivers import find_drivers

MIB = 1 << 20
NONE = shim.Drivers(cuda=None, nvml=None)


def test_it_holds_what_a_program_needs_and_nothing_to_write_but_the_ledger(
    machine: Any, a_slice: Path
) -> None:
    modes = {
        path.name: stat.S_IMODE(path.lstat().st_mode) | (path.is_symlink() << 12)
        for path in a_slice.iterdir()
    }

    assert modes == {
        "libcuda.so.1": 0o755,
        "libcuda.so": 0o10777,
        "libcuda-real.so.1": 0o10777,
        "limit": 0o644,
        "ledger": 0o600,
    }
    assert (a_slice / "libcuda-real.so.1").readlink() == machine.driver
    assert shim.read_limit(a_slice) == 4096 * MIB
    assert shim.read_ledger(a_slice) == shim.LedgerView(holders=(), denied=0, uncounted=0)


def test_it_has_the_nvml_of_a_machine_that_has_one(machine: Any, tmp_path: Path) -> None:
    made = machine.slice(tmp_path / "with-nvml", 100, nvml=machine.driver)

    assert (made / "libnvidia-ml.so.1").exists()
    assert (made / "libnvidia-ml-real.so.1").is_symlink()


def test_made_again_it_forgets_nothing(
    machine: Any, client: Callable[..., Any], a_slice: Path
) -> None:
    program = client()
    program.alloc(1000)
    before = {path.name: path.lstat().st_ino for path in a_slice.iterdir()}

    machine.slice(a_slice, 5000)

    assert {path.name: path.lstat().st_ino for path in a_slice.iterdir()} == before
    assert program.alloc(4000)  # the new limit, in the same file
    assert not program.alloc(1)
    view = shim.read_ledger(a_slice)
    assert view is not None
    assert view.used_bytes == 5000 * MIB


def test_an_older_library_is_replaced_beside_those_who_use_it(
    machine: Any, client: Callable[..., Any], a_slice: Path
) -> None:
    (a_slice / building.CUDA).unlink()
    (a_slice / building.CUDA).write_bytes((building.LIBRARIES / building.CUDA).read_bytes() + b"+")
    program = client()

    machine.slice(a_slice, 4096)

    assert (a_slice / building.CUDA).read_bytes() == (
        building.LIBRARIES / building.CUDA
    ).read_bytes()
    assert program.alloc(4096)
    assert shim.shimmed(a_slice, program.pid) is True
    assert [path.name for path in a_slice.iterdir() if path.name.startswith(".")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_ledger_is_the_users(machine: Any, tmp_path: Path) -> None:
    made = tmp_path / "theirs"
    drivers = shim.Drivers(cuda=machine.driver, nvml=None)
    shim.prepare(made, limit_bytes=1, device_uuid="GPU-1", owner_uid=12345, drivers=drivers)

    assert (made / "ledger").stat().st_uid == 12345
    assert (made / "limit").stat().st_uid == made.stat().st_uid == 0


def test_release_removes_it_and_is_harmless_again(a_slice: Path) -> None:
    shim.release(a_slice)
    shim.release(a_slice)

    assert not a_slice.exists()
    assert shim.read_limit(a_slice) is None
    assert shim.read_ledger(a_slice) is None


# --- a ledger that its user spoilt --------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: os.truncate(path, 10),
        lambda path: path.write_bytes(b"x" * layout.LEDGER_SIZE),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    ],
)
def test_what_is_no_ledger_is_not_read_as_one(a_slice: Path, spoil: Any) -> None:
    spoil(a_slice / "ledger")

    assert shim.read_ledger(a_slice) is None


def test_a_ledger_that_grew_is_read_as_far_as_it_goes(a_slice: Path) -> None:
    os.truncate(a_slice / "ledger", 1 << 40)

    assert shim.read_ledger(a_slice) == shim.LedgerView(holders=(), denied=0, uncounted=0)


def test_a_spoilt_ledger_stays_and_denies(
    machine: Any, client: Callable[..., Any], a_slice: Path
) -> None:
    """A fresh one beside those who have the old one mapped would let both use the whole slice."""
    (a_slice / "ledger").write_bytes(b"")
    machine.slice(a_slice, 4096)

    assert shim.read_ledger(a_slice) is None
    assert not client().alloc(1)


def test_wild_numbers_are_only_numbers(a_slice: Path) -> None:
    data = bytearray(layout.empty_ledger())
    most = (1 << 64) - 1
    layout.SLOT.pack_into(data, layout.HEADER.size, most >> 1, most, most, most, most)
    layout.SLOT.pack_into(data, layout.HEADER.size + 64, most, most, most, most, most)
    (a_slice / "ledger").write_bytes(data)
    view = shim.read_ledger(a_slice)

    assert view is not None
    assert [holder.used_bytes for holder in view.holders] == [most]  # the other is being taken


@pytest.mark.parametrize("odd", [":", ";", "$LIB"])
def test_a_folder_that_the_linker_would_not_find_is_refused(
    machine: Any, tmp_path: Path, odd: str
) -> None:
    folder = tmp_path / f"a{odd}b"
    with pytest.raises(ShimUnavailable, match="without : ; \\$"):
        machine.slice(folder, 100)
    assert not folder.exists()


# --- who is in it, and where it works -------------------------------------------------------------


def test_a_process_is_seen_to_use_it_or_not(client: Callable[..., Any], a_slice: Path) -> None:
    with_shim, without = client(), client(None)

    elsewhere = a_slice.with_name("elsewhere")
    elsewhere.symlink_to(a_slice)

    assert shim.shimmed(a_slice, with_shim.pid) is True
    assert shim.shimmed(elsewhere, with_shim.pid) is True
    assert shim.shimmed(a_slice, without.pid) is False
    assert shim.shimmed(a_slice, os.getpid()) is None  # no driver loaded
    assert shim.shimmed(a_slice, 0) is None


def test_a_librarys_path_is_put_before_the_users() -> None:
    assert shim.library_path(Path("/slice")) == "/slice"
    assert shim.library_path(Path("/slice"), "/a:/b") == "/slice:/a:/b"


def test_probe_says_what_is_missing(machine: Any, tmp_path: Path) -> None:
    drivers = shim.Drivers(cuda=machine.driver, nvml=None)

    assert shim.probe(drivers) is None
    assert "no driver here" in str(shim.probe(NONE))
    assert "shim not built" in str(folder.probe(drivers, libraries=tmp_path))
    with pytest.raises(ShimUnavailable, match="no driver here"):
        shim.prepare(tmp_path, limit_bytes=1, device_uuid="", owner_uid=0, drivers=NONE)


def test_drivers_are_found_where_they_usually_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_kwargs: None)  # no linker cache
    (tmp_path / "libcuda.so.580.1").write_bytes(b"")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.580.1")

    found = find_drivers([str(tmp_path / "nothing"), str(tmp_path)])

    assert found == shim.Drivers(cuda=tmp_path / "libcuda.so.580.1", nvml=None)


def test_drivers_of_32_bit_programs_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("32", "64"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libcuda.so.1").write_bytes(b"")
    listed = (
        "2 libs found in cache\n"
        f"\tlibcuda.so.1 (libc6) => {tmp_path}/32/libcuda.so.1\n"
        f"\tlibcuda.so.1 (libc6,x86-64) => {tmp_path}/64/libcuda.so.1\n"
    )
    monkeypatch.setattr("shutil.which", lambda *_args, **_kwargs: "/sbin/ldconfig")
    monkeypatch.setattr(
        subprocess, "run", lambda *_a, **_k: subprocess.CompletedProcess([], 0, stdout=listed)
    )

    assert find_drivers([]).cuda == tmp_path / "64" / "libcuda.so.1"
