"""An image's list of open files, changed before the wake; records here are as CRIU writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.files_image import let_files_grow, listening_ports, move_ports
from gpucommons.gpu.hibernation.process_image import Cpu, Image, OpenFile

MAGIC = b"\x01\x02\x03\x04\x05\x06\x07\x08"


def number(key: int, value: int) -> bytes:
    return digits(key << 3) + digits(value)


def nested(key: int, content: bytes) -> bytes:
    return digits(key << 3 | 2) + digits(len(content)) + content


def digits(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def listening(port: int, *, reuses: bool = True, target: int = 0) -> bytes:
    options = nested(14, number(7, int(reuses)))
    return nested(4, number(1, 9) + number(7, port) + number(8, target) + options + number(15, 1))


def regular(path: str, size: int) -> bytes:
    return nested(3, number(1, 5) + nested(6, path.encode()) + number(8, size) + number(10, 420))


def entry(kind: int, content: bytes) -> bytes:
    record = number(1, kind) + number(2, 300) + content
    return struct.pack("<I", len(record)) + record


@pytest.fixture
def image(tmp_path: Path) -> Image:
    content = MAGIC + b"".join(
        [
            entry(3, listening(40000)),
            entry(3, listening(50000, reuses=False)),
            entry(3, listening(40000, target=443)),
            entry(1, regular("/home/history.sqlite", 70000)),
            entry(1, regular("/home/data.csv", 70000)),
            # Kinds of values that nothing here looks into.
            entry(7, digits(5 << 3 | 5) + b"abcd" + digits(6 << 3 | 1) + b"abcdefgh"),
        ]
    )
    (tmp_path / "files.img").write_bytes(content)
    made = Image(
        folder=tmp_path,
        bytes=len(content),
        made_ms=1,
        seconds=1.0,
        processes=(2,),
        root_pid=2,
        uid=1000,
        kernel_release="6.1",
        cpu=Cpu(architecture="x86_64", model="", features=()),
        clocks_ns={},
        pipes={},
        files=images.describe_files(tmp_path),
        open_files=(
            OpenFile(path="/home/history.sqlite", bytes=70000, changed_ns=1, grows=True),
            OpenFile(path="/home/data.csv", bytes=70000, changed_ns=1),
        ),
    )
    images.write(made)
    return made


def content(image: Image) -> bytes:
    return (image.folder / "files.img").read_bytes()


def test_a_socket_that_listens_is_told_from_a_connection(image: Image) -> None:
    assert listening_ports(image) == {40000: True, 50000: False}


def test_a_port_is_moved_and_all_else_stays(image: Image) -> None:
    before = content(image)
    move_ports(image, {40000: 199})

    assert listening_ports(image) == {199: True, 50000: False}
    assert entry(3, listening(40000, target=443)) in content(image)
    move_ports(image, {199: 40000})
    assert content(image) == before


def test_a_changed_list_is_no_damage(image: Image) -> None:
    changed = move_ports(image, {40000: 199})

    assert images.read(image.folder) == changed
    assert changed.files == images.describe_files(image.folder)


def test_sizes_of_files_that_may_grow_are_not_compared(image: Image) -> None:
    let_files_grow(image)

    assert entry(1, regular("/home/data.csv", 70000)) in content(image)
    assert entry(1, regular("/home/history.sqlite", 70000)) not in content(image)
    assert b"/home/history.sqlite" in content(image)
