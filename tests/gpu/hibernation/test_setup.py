"""Getting CRIU: from the machine's own mirror, checked, and nothing of the system touched."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation import criu, pins, setup

DEBIAN = 'ID=debian\nVERSION_CODENAME="bookworm"\n'
SOURCES = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "apt" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "apt" / "apt.conf.d").mkdir()
    (tmp_path / "os-release").write_text(DEBIAN)
    return tmp_path


def source(machine: Path) -> str:
    return setup._source(machine / "apt", setup._release(machine / "os-release"))


on_debian = pytest.mark.skipif(
    not Path("/usr/bin/dpkg-deb").exists() or os.uname().machine != "x86_64",
    reason="asks for Debian's programs",
)


@on_debian
def test_the_machines_own_mirror_and_key_are_used(machine: Path) -> None:
    (machine / "apt" / "sources.list.d" / "debian.sources").write_text(SOURCES)

    assert source(machine) == (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: sid\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )


@on_debian
def test_a_list_of_the_old_form_is_read_too(machine: Path) -> None:
    (machine / "apt" / "sources.list").write_text(
        "deb http://mirror.example/security bookworm-security main\n"
        "deb [signed-by=/keys/debian.gpg] http://mirror.example/debian bookworm main\n"
    )

    assert "URIs: http://mirror.example/debian\n" in source(machine)
    assert "Signed-By: /keys/debian.gpg" in source(machine)


@on_debian
def test_without_a_mirror_nothing_is_guessed(machine: Path) -> None:
    with pytest.raises(setup.CannotSetUp, match="names no mirror of Debian bookworm"):
        source(machine)


def test_another_distribution_is_told_its_package(machine: Path) -> None:
    (machine / "os-release").write_text("ID=fedora\n")

    with pytest.raises(setup.CannotSetUp, match="dnf install criu"):
        source(machine)


def test_a_package_with_other_bytes_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "criu.deb"
    package.write_bytes(b"other bytes")
    name = next(iter(pins.TRIED))
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=name)
    )

    with pytest.raises(setup.CannotSetUp, match="has other bytes than it had"):
        setup._vouch([package], lambda _: None)


def test_a_newer_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout="criu 9-1")
    )

    setup._vouch([tmp_path / "criu.deb"], said.append)

    assert said == ["criu 9-1 is newer than what was tried; it is signed by Debian."]


# --- finding it ------------------------------------------------------------------------------


def a_criu(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'Version: {version}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="runs a script of the shell")
def test_the_variable_wins_and_an_old_one_counts_as_none(tmp_path: Path) -> None:
    new = a_criu(tmp_path / "new" / "criu", "4.2.1")
    old = a_criu(tmp_path / "old" / "criu", "3.17.1")
    environ = {"PATH": str(new.parent), "HOME": str(tmp_path)}

    assert criu.find_criu({**environ, "GPUCOMMONS_CRIU": str(old)}) is None
    found = criu.find_criu(environ)
    assert found is not None
    assert (found.command[-1], found.version) == (str(new), "4.2.1")


def test_what_cannot_be_started_is_none(tmp_path: Path) -> None:
    broken = tmp_path / "criu"
    broken.write_text("no program")

    assert criu.criu_at(broken) is None
    assert criu.criu_at(tmp_path) is None
    assert criu.criu_at(tmp_path / "missing") is None


@pytest.mark.criu
def test_what_is_there_and_good_is_not_fetched_again(criu: criu.Criu, tmp_path: Path) -> None:
    root = next((Path(part) for part in criu.command if part.endswith("/usr/sbin/criu")), None)
    if root is None:
        pytest.skip("this CRIU was not unpacked by us")
    (tmp_path / "root").symlink_to(root.parents[2])

    assert setup.set_up(tmp_path, print, apt=tmp_path / "none").version == criu.version


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a folder away")
@pytest.mark.parametrize("given", [".", "state", "state/gpucommons/criu/root/usr/sbin/criu"])
def test_root_runs_no_criu_of_another_user(
    tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(criu, "_LOADERS", {platform.machine(): "loader"})
    root = tmp_path / "state" / "gpucommons" / "criu" / "root"
    a_criu(root / "usr" / "sbin" / "criu", "4.2.1")
    a_criu(root / "usr" / "lib" / f"{platform.machine()}-linux-gnu" / "loader", "4.2.1")
    environ = {"PATH": "", "XDG_STATE_HOME": str(tmp_path / "state")}
    assert criu.find_criu(environ) is not None

    os.chown(tmp_path / given, 12_345, 12_345)

    assert criu.find_criu(environ) is None
    assert criu.find_criu({**environ, "GPUCOMMONS_CRIU": str(root)}) is None


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as ``setup`` makes it, with a program that is only a script."""
    monkeypatch.setattr(criu, "_LOADERS", {platform.machine(): "loader"})
    root = tmp_path / "unpacked"
    a_criu(root / "usr" / "sbin" / "criu", "4.2.1")
    a_criu(root / "usr" / "lib" / f"{platform.machine()}-linux-gnu" / "loader", "4.2.1")
    return root


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a link away")
def test_a_link_of_another_user_is_not_kept(tmp_path: Path, unpacked: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(unpacked)
    os.chown(link, 12_345, 12_345, follow_symlinks=False)

    found = criu.criu_at(link)

    assert found is not None
    assert str(link) not in " ".join(found.command)
    assert str(unpacked / "usr" / "sbin" / "criu") in found.command


@pytest.mark.skipif(os.name != "posix", reason="has no such rights")
@pytest.mark.parametrize("given", [".", "usr/sbin", "usr/sbin/criu", "usr/lib"])
def test_what_others_may_write_is_not_run(unpacked: Path, given: str) -> None:
    assert criu.criu_at(unpacked) is not None

    (unpacked / given).chmod(0o757)

    assert criu.criu_at(unpacked) is None


@pytest.mark.skipif(os.name != "posix", reason="has no such rights")
def test_a_sticky_folder_is_good_above_but_not_for_libraries(unpacked: Path) -> None:
    unpacked.chmod(0o1777)
    assert criu.criu_at(unpacked) is not None

    (unpacked / "usr" / "lib" / f"{platform.machine()}-linux-gnu").chmod(0o1777)
    assert criu.criu_at(unpacked) is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a folder to a group")
@pytest.mark.parametrize(
    ("group", "members", "good"),
    [(50, [], True), (50, ["nobody"], False), (50, ["root"], True), (54_321, [], False)],
)
def test_a_group_may_write_only_while_nobody_else_is_in_it(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch, group: int, members: list[str], good: bool
) -> None:
    import grp  # noqa: PLC0415 - not on every system
    import pwd  # noqa: PLC0415

    nobody = pwd.struct_passwd(("nobody", "x", 65_534, 65_534, "", "/", "/bin/false"))
    root = pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [root, nobody])
    monkeypatch.setattr(pwd, "getpwnam", {"root": root, "nobody": nobody}.__getitem__)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("staff", "x", gid, members)))
    os.chown(unpacked / "usr", 0, group)
    (unpacked / "usr").chmod(0o2775)

    assert (criu.criu_at(unpacked) is not None) is good
