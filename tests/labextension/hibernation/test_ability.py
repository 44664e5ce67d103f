"""Where it does not work, kernels are Jupyter's own, and whoever was promised something is told why."""

from __future__ import annotations

import _ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernel_server import FORBIDS_MOUNTS, KernelServer, criu_of_tests

from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.self_test import NO_CRIU, Ability
from gpucommons.labextension.hibernation import ability as machines
from gpucommons.labextension.hibernation.ability import (
    holds_unsaved_gpu,
    may_hold_gpu,
    this_machine,
)
from tests.labextension.hibernation.conftest import end_servers
from tests.labextension.hibernation.server_state import kept, lost, opened

CRIU = Criu(command=("criu",), version="4.2.1")


def ability(*, can: bool) -> Ability:
    return Ability(
        can_hibernate=can, because="" if can else "Not here.", save_mib_per_s=1, wake_mib_per_s=1
    )


def test_without_criu_nothing_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "find_criu", lambda _environ: None)
    found = this_machine({}, tmp_path)

    assert not found.has_criu
    assert found.why_not() == NO_CRIU


def test_a_passed_test_is_not_repeated_and_a_failed_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [ability(can=False), ability(can=True)]
    monkeypatch.setattr(machines, "find_criu", lambda _environ: CRIU)
    monkeypatch.setattr(machines, "self_test", lambda *_arguments, **_named: answers.pop(0))
    ask = this_machine({}, tmp_path).why_not

    assert [ask(), ask(), ask()] == ["Not here.", None, None]


def test_below_roots_program_it_starts_all_trees_and_its_criu_is_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def test(criu: Criu, *_arguments: object, starter: Path | None) -> Ability:
        tried.append((criu.command, starter))
        return ability(can=True)

    monkeypatch.setattr(machines, "find_criu", lambda _environ: CRIU)
    monkeypatch.setattr(machines, "self_test", test)
    found = this_machine({"GPUCOMMONS_TREES": "/run/socket"}, tmp_path)

    assert found.has_criu
    assert found.why_not() is None
    assert tried == [((), Path("/run/socket"))]
    tree = found.make_tree(tmp_path / "tree")
    assert tree.starter == Path("/run/socket")
    assert tree.driver is None
    # What passed with one program says nothing of the next.
    assert this_machine({"GPUCOMMONS_TREES": "/run/other"}, tmp_path).why_not() is None
    assert len(tried) == 2


def test_another_criu_is_tested_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [CRIU, Criu(command=("criu",), version="4.3")]
    tested: list[Criu] = []

    def test(criu: Criu, *_arguments: object, **_named: object) -> Ability:
        tested.append(criu)
        return ability(can=True)

    monkeypatch.setattr(machines, "self_test", test)
    for criu in found:
        monkeypatch.setattr(machines, "find_criu", lambda _environ, criu=criu: criu)
        this_machine({}, tmp_path).why_not()

    assert tested == found


def test_a_home_that_cannot_be_written_is_a_reason_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(machines, "find_criu", lambda _environ: CRIU)

    assert "could not be tested" in (this_machine({}, tmp_path / "file" / "x").why_not() or "")


@pytest.mark.parametrize("note", ["self-test.json", "gpu-self-test.json"])
def test_a_note_that_the_disk_refuses_fails_no_test_that_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    driver = Path("/usr/lib/libcuda.so.580")
    (tmp_path / note).mkdir()  # a file cannot take its place
    monkeypatch.setattr(machines, "find_criu", lambda _environ: CRIU)
    monkeypatch.setattr(machines, "find_drivers", lambda: SimpleNamespace(cuda=driver))
    monkeypatch.setattr(machines, "self_test", lambda *_arguments, **_named: ability(can=True))
    monkeypatch.setattr(machines, "gpu_self_test", lambda *_arguments: None)
    found = this_machine({}, tmp_path)

    assert found.why_not() is None
    assert found.make_tree(tmp_path / "tree").driver == driver


def test_a_kernel_that_keeps_to_a_part_of_a_gpu_is_known_before_its_stop(tmp_path: Path) -> None:
    interposer = tmp_path / "libcuda.so.1"
    interposer.write_bytes(Path(_ctypes.__file__).read_bytes())
    code = f"import ctypes; ctypes.CDLL({str(interposer)!r}); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()

        assert not holds_unsaved_gpu([program.pid], parks=False)  # a driver, and no limit beside it
        (tmp_path / "libcuda-real.so.1").touch()
        assert holds_unsaved_gpu([program.pid], parks=True)
        assert not holds_unsaved_gpu([os.getpid() + 1_000_000], parks=True)
        program.communicate(b"\n")


def test_children_of_all_kernels_are_found_by_one_look_at_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[object] = []

    def processes(fields: object) -> list[SimpleNamespace]:
        looks.append(fields)
        parents = {2: 1, 3: 1, 4: 3, 5: 4, 6: 1, 7: 6}
        return [SimpleNamespace(pid=pid, info={"ppid": of}) for pid, of in parents.items()]

    seen: list[int] = []
    monkeypatch.setattr(machines.psutil, "process_iter", processes)
    monkeypatch.setattr(machines, "part_of_gpu", seen.append)

    assert not holds_unsaved_gpu([2, 3, 9], parks=True)
    assert sorted(seen) == [2, 3, 4, 5, 9]
    assert len(looks) == 1


def test_without_a_gpu_a_driver_or_a_slice_no_kernel_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_cuda_driver", lambda: None)
    environ = {"LD_LIBRARY_PATH": str(tmp_path / "slice")}
    assert not may_hold_gpu(environ, tmp_path)
    (tmp_path / "slice").mkdir()
    (tmp_path / "slice" / "libcuda-real.so.1").touch()
    assert may_hold_gpu(environ, tmp_path)
    assert not may_hold_gpu({}, tmp_path)
    (tmp_path / "nvidia0").touch()
    assert may_hold_gpu({}, tmp_path)


@pytest.mark.criu
@pytest.mark.timeout(120)
def test_where_mounts_are_forbidden_variables_are_kept_and_nothing_more_is_promised(
    tmp_path: Path,
) -> None:
    environ = {"GPUCOMMONS_CRIU": criu_of_tests()}
    first = KernelServer(tmp_path / "home", environ, prelude=FORBIDS_MOUNTS).start()
    second: KernelServer | None = None
    try:
        kernel, _ = opened(first)
        first.page(kernel).run("x = 41")
        assert first.greeting("hello")["keeps"] == "variables"
        first.stop()
        assert kept(first) == {}

        second = KernelServer(tmp_path / "home", environ, prelude=FORBIDS_MOUNTS).start()
        [stored] = second.ask("GET", "gpucommons/stored-variables")["stored"]
        assert (stored["kernel_id"], stored["kept"]) == (kernel, ["x"])
        assert lost(second) == {}
    finally:
        end_servers([one for one in (first, second) if one is not None])
