"""What speaks against waking an image is found before CRIU runs."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.process_image import Image, OpenFile, hindrance

pytestmark = pytest.mark.skipif(
    not Path("/proc/cpuinfo").exists(), reason="asks Linux for its processor"
)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "pages-1.img").write_bytes(b"memory" * 1000)
    (tmp_path / "inventory.img").write_bytes(b"inventory")
    library = tmp_path / "library.so"
    library.write_bytes(b"code")
    found = library.stat()
    image = Image(
        folder=tmp_path,
        bytes=6009,
        made_ms=1,
        seconds=0.1,
        processes=(2, 3),
        root_pid=2,
        uid=os.getuid(),
        kernel_release=platform.release(),
        cpu=images.this_cpu(),
        clocks_ns={"monotonic": 1, "boottime": 1},
        pipes={1: "pipe:[7]"},
        files=images.describe_files(tmp_path),
        open_files=(
            OpenFile(path=str(library), bytes=found.st_size, changed_ns=found.st_mtime_ns),
        ),
    )
    images.write(image)
    return image


def test_a_whole_image_is_read_as_it_was_written(image: Image) -> None:
    assert images.read(image.folder) == image
    assert hindrance(image) is None


def test_a_truncated_file_is_named(image: Image) -> None:
    with (image.folder / "pages-1.img").open("r+b") as stream:
        stream.truncate(100)

    assert hindrance(image) == "The image is damaged: pages-1.img has 100 of 6000 bytes."


def test_a_changed_byte_is_noticed(image: Image) -> None:
    with (image.folder / "pages-1.img").open("r+b") as stream:
        stream.write(b"M")

    assert hindrance(image) == "The image is damaged: the content of pages-1.img changed."


def test_a_missing_file_is_named(image: Image) -> None:
    (image.folder / "inventory.img").unlink()

    assert hindrance(image) == "The image is damaged: inventory.img is missing."


def test_another_processor_is_named(image: Image) -> None:
    cpu = replace(image.cpu, features=(*image.cpu.features, "avx9"), model="Other")

    assert (hindrance(replace(image, cpu=cpu)) or "").startswith(
        "It was saved on another processor (Other), which has avx9;"
    )
    other = replace(image.cpu, architecture="riscv64")
    assert "riscv64" in (hindrance(replace(image, cpu=other)) or "")


def test_an_older_kernel_than_the_images_is_refused_and_a_newer_is_not(image: Image) -> None:
    assert "newer kernel (99.1.0)" in (hindrance(replace(image, kernel_release="99.1.0")) or "")
    assert hindrance(replace(image, kernel_release="3.10.0-x")) is None


def test_another_users_image_is_refused(image: Image) -> None:
    foreign = replace(image, uid=os.getuid() + 1)

    assert hindrance(foreign) == "The image was saved by another user."


def test_a_link_to_an_image_is_refused(image: Image, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(image.folder)

    assert hindrance(replace(image, folder=link)) == "The image was saved by another user."


def test_an_open_file_that_changed_or_went_is_named(image: Image) -> None:
    path = Path(image.open_files[0].path)
    path.write_bytes(b"edoc")  # of the same size, which CRIU would not notice
    os.utime(path, ns=(1, 1))
    assert hindrance(image) == f"{path} was open, and it changed since."

    path.unlink()
    assert hindrance(image) == f"{path} was open, and it is gone."


def test_a_log_that_is_only_appended_to_may_have_grown(image: Image) -> None:
    [file] = image.open_files
    log = replace(image, open_files=(replace(file, grows=True),))
    Path(file.path).write_bytes(b"code and more")

    assert hindrance(log) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', "\x00"])
def test_a_description_that_is_not_understood_is_no_image(image: Image, text: str) -> None:
    (image.folder / "image.json").write_text(text)

    assert images.read(image.folder) is None


@pytest.mark.parametrize("kills", [(0,), (1,), (2,), (1, 0), (1, 1), (2, 1)])
def test_a_file_is_replaced_whole_whoever_is_killed_meanwhile(
    image: Image, monkeypatch: pytest.MonkeyPatch, kills: tuple[int, ...]
) -> None:
    """Each number says how many renames are done before the process is gone."""
    rename = Path.replace

    for done in kills:
        left = [done]

        def until_killed(path: Path, target: Path, left: list[int] = left) -> Path:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return rename(path, target)

        monkeypatch.setattr(Path, "replace", until_killed)
        found = images.read(image.folder)
        assert found is not None
        with pytest.raises(KeyboardInterrupt):
            images.replace_file(found, "inventory.img", b"another inventory" + b"!" * done)

    monkeypatch.setattr(Path, "replace", rename)
    found = images.read(image.folder)
    assert found is not None
    assert hindrance(found) is None
    changed = images.replace_file(found, "inventory.img", b"new")
    assert images.read(image.folder) == changed
    assert changed.files == images.describe_files(image.folder)
