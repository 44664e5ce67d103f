"""Images as archives: the same files give the same image, and what it says of itself is true."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deploy.release import layers
from deploy.release.archive import Run, Written, damage, pack, write_archive
from deploy.release.contents import CannotRelease, Debian, Image
from deploy.release.layers import Workshop

DEBIAN = Debian(suite="trixie", python="3.13", packages=["python3"], without=[])
IMAGE = Image(
    name="service",
    dockerfile="Dockerfile",
    repository="gpucommons",
    base="python",
    extras=[],
    lock="service.lock",
    account="someone",
    home="/var/lib/someone",
    command=["python"],
)


def a_folder(folder: Path, *, dated: int, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")
        os.utime(path, (dated, dated))
    (folder / "link").symlink_to("/elsewhere")
    (folder / "bin/run").chmod(0o700)
    return folder


def test_the_same_files_give_the_same_layer_whatever_their_times_and_order(tmp_path: Path) -> None:
    names = ["bin/run", "etc/one", "etc/two"]
    first = a_folder(tmp_path / "a", dated=1_000, names=names)
    second = a_folder(tmp_path / "b", dated=2_000_000, names=names[::-1])
    pack(first, tmp_path / "a.gz")
    pack(second, tmp_path / "b.gz")
    assert Written.of(tmp_path / "a.gz").digest == Written.of(tmp_path / "b.gz").digest

    (second / "etc/two").write_text("other")
    pack(second, tmp_path / "b.gz")
    assert Written.of(tmp_path / "a.gz").digest != Written.of(tmp_path / "b.gz").digest


def test_an_archive_names_each_part_by_its_true_digest_and_runs_as_a_user(tmp_path: Path) -> None:
    pack(a_folder(tmp_path / "a", dated=1, names=["bin/run"]), tmp_path / "a.tar.gz")
    layer = Written.of(tmp_path / "a.tar.gz")
    archive = tmp_path / "image.tar"
    digest = write_archive(archive, "localhost/image:1", [layer], Run(command=["run"]))

    blobs = blobs_of(archive)
    for name, content in blobs.items():
        assert hashlib.sha256(content).hexdigest() == name
    (top,) = json.loads(member(archive, "index.json"))["manifests"]
    assert top["digest"] == digest
    manifest = json.loads(blobs[digest.removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    (described,) = manifest["layers"]
    content = gzip.decompress(blobs[described["digest"].removeprefix("sha256:")])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    assert config["config"]["User"] == "1000:1000"
    assert config["config"]["Cmd"] == ["run"]


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_half_an_archive_is_told_from_a_whole_one(tmp_path: Path, kept: float) -> None:
    pack(a_folder(tmp_path / "a", dated=1, names=["bin/run"]), tmp_path / "a.tar.gz")
    archive = tmp_path / "image.tar"
    layer = Written.of(tmp_path / "a.tar.gz")
    write_archive(archive, "localhost/image:1", [layer], Run(command=["run"]))
    assert damage(archive) == ""

    content = archive.read_bytes()
    # The last blocks of a tar are empty.
    archive.write_bytes(content[: int(len(content.rstrip(b"\0")) * kept)])
    assert damage(archive)


def test_an_archive_whose_layer_is_another_is_told_by_its_name(tmp_path: Path) -> None:
    pack(a_folder(tmp_path / "a", dated=1, names=["bin/run"]), tmp_path / "a.tar.gz")
    layer = Written.of(tmp_path / "a.tar.gz")
    (tmp_path / "a.tar.gz").write_bytes(bytes(layer.size))
    archive = tmp_path / "image.tar"
    write_archive(archive, "localhost/image:1", [layer], Run(command=["run"]))
    assert f"blobs/sha256/{layer.digest} is not what its name says" in damage(archive)


def test_one_that_fails_while_it_writes_leaves_no_archive(tmp_path: Path) -> None:
    pack(a_folder(tmp_path / "a", dated=1, names=["bin/run"]), tmp_path / "a.tar.gz")
    layer = Written.of(tmp_path / "a.tar.gz")
    (tmp_path / "a.tar.gz").unlink()
    with pytest.raises(FileNotFoundError):
        write_archive(tmp_path / "image.tar", "localhost/image:1", [layer], Run())
    assert not (tmp_path / "image.tar").exists()


def blobs_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        names = [name for name in tar.getnames() if name.startswith("blobs/")]
    return {name.rpartition("/")[2]: member(archive, name) for name in names}


def member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        found = tar.extractfile(name)
        assert found is not None
        return found.read()


def a_wheel(path: Path) -> Path:
    """With a module, a command, data of the prefix, and tests that no image needs."""
    notes = "hello-1.dist-info"
    files = {
        "hello/__init__.py": "def main(): print('hello')\n",
        "hello/tests/test_it.py": "assert True\n",
        "hello-1.data/data/share/jupyter/hello.json": "{}",
        f"{notes}/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1\n",
        f"{notes}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{notes}/entry_points.txt": "[console_scripts]\nhello = hello:main\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{notes}/RECORD", "".join(f"{name},,\n" for name in files))
    return path


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base that holds accounts alone: no test loads a Debian."""
    made = tmp_path / "base.tar.gz"
    with tarfile.open(made, "w:gz") as tar:
        for name in ("etc/passwd", "etc/group"):
            row = tarfile.TarInfo(name)
            text = b"root:x:0:0\n"
            row.size = len(text)
            tar.addfile(row, io.BytesIO(text))
    monkeypatch.setattr(Workshop, "debian", Written.of(made))
    monkeypatch.setattr(Workshop, "_compile", lambda *_: None)


@pytest.mark.usefixtures("base")
def test_a_layer_that_is_built_twice_is_the_same_and_lies_where_the_images_python_looks(
    tmp_path: Path,
) -> None:
    wheel = a_wheel(tmp_path / "hello-1-py3-none-any.whl")
    twice = [Workshop(tmp_path / name, DEBIAN).wheel(IMAGE, wheel) for name in ("one", "two")]
    assert twice[0].digest == twice[1].digest

    rows = {row.name: row for row in rows_of(twice[0])}
    packages = "usr/local/lib/python3.13/site-packages"
    assert f"{packages}/hello/__init__.py" in rows
    assert "usr/local/share/jupyter/hello.json" in rows
    assert not [name for name in rows if "/tests" in name]
    assert text_of(twice[0], "usr/local/bin/hello").startswith("#!/usr/local/bin/python3\n")
    assert text_of(twice[0], "etc/passwd").splitlines()[-1].startswith("someone:x:1000:1000:")
    assert rows["var/lib/someone"].uid == 1000
    assert rows["usr/local/bin/hello"].mode == 0o755
    assert {row.mtime for row in rows.values()} == {0}


def rows_of(layer: Written) -> list[tarfile.TarInfo]:
    assert layer.path is not None
    with tarfile.open(layer.path) as tar:
        return tar.getmembers()


def text_of(layer: Written, name: str) -> str:
    assert layer.path is not None
    with tarfile.open(layer.path) as tar:
        found: Any = tar.extractfile(name)
        return str(found.read().decode())


@pytest.mark.usefixtures("base")
def test_a_package_whose_libraries_the_image_lacks_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root/usr/lib/x86_64-linux-gnu"
    root.mkdir(parents=True)
    loader = root / "ld-linux-x86-64.so.2"
    monkeypatch.setattr(Workshop, "_root", lambda _: tmp_path / "root")
    module = tmp_path / "packages/one.so"
    module.parent.mkdir()
    module.touch()
    workshop = Workshop(tmp_path / "shop", DEBIAN)

    def lists(path: str) -> None:
        loader.write_text(f"#!/bin/sh\necho '\tlibx.so.1 => {path} (0x1)'\n")
        loader.chmod(0o755)

    lists(f"{root}/libx.so.1")
    workshop._check_libraries(module.parent)
    for elsewhere in ("not found", "/usr/lib/libx.so.1"):
        lists(elsewhere)
        with pytest.raises(CannotRelease, match=r"one.so needs libx.so.1, .* add Debian's package"):
            workshop._check_libraries(module.parent)


def test_a_base_is_kept_for_a_week_and_then_made_of_the_packages_of_that_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def bootstrap(_debian: object, tar: Path) -> None:
        made.append("base")
        tar.write_bytes(b"%d" % len(made))

    monkeypatch.setattr(layers, "_bootstrap", bootstrap)
    first = Workshop(tmp_path, DEBIAN).debian
    assert Workshop(tmp_path, DEBIAN).debian == first
    week_ago = time.time() - 8 * 86_400
    os.utime(first.path, (week_ago, week_ago))
    assert Workshop(tmp_path, DEBIAN).debian.digest != first.digest
    assert made == ["base", "base"]
