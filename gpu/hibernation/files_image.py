"""Changes in an image's list of open files, before it is woken: ports that are taken by now, and sizes.

The list is a file of CRIU's: a magic number, then records in the wire format of protocol buffers, each
behind its length. What is not looked for here is written as it was read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.process_image import Image

_LIST = "files.img"
MAGIC_BYTES = 8
_LENGTH = struct.Struct("<I")
#: Numbers of fields: of an entry, of an internet socket in it, of a regular file in it.
_REGULAR, _SOCKET = 3, 4
_SOURCE_PORT, _TARGET_PORT, _OPTIONS, _REUSES = 7, 8, 14, 7
_NAME, _SIZE = 6, 8
NUMBER, _EIGHT_BYTES, BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}


class Field(NamedTuple):
    """Of a message in this format."""

    number: int
    kind: int
    #: Of a number or of bytes; as it was read for the others.
    value: int | bytes


def listening_ports(image: Image) -> dict[int, bool]:
    """Ports on which something of the image listens, and whether it takes one of a connection just ended."""
    found = {}
    content = (image.folder / _LIST).read_bytes()[MAGIC_BYTES:]
    for record in records(content):
        for field in fields(record):
            if field.number == _SOCKET:
                port, reuses = _listener(field.value)
                if port:
                    found[port] = reuses
    return found


def _listener(message: int | bytes) -> tuple[int, bool]:
    """The port of a socket; 0 for a connection, which no wake brings back."""
    found = {each.number: each.value for each in fields(message)}
    port = 0 if found.get(_TARGET_PORT) else found.get(_SOURCE_PORT, 0)
    options = {each.number: each.value for each in fields(found.get(_OPTIONS, b""))}
    assert isinstance(port, int)  # noqa: S101 - for the type checker
    return port, bool(options.get(_REUSES))


def move_ports(image: Image, moved: Mapping[int, int]) -> Image:
    """Have what listened on the old ports listen on the new ones."""

    def change(field: Field) -> bytes | None:
        port, _ = _listener(field.value) if field.number == _SOCKET else (0, False)
        if port not in moved:
            return None
        return b"".join(
            encoded(each._replace(value=moved[port]) if each.number == _SOURCE_PORT else each)
            for each in fields(field.value)
        )

    return _changed(image, change)


def let_files_grow(image: Image) -> Image:
    """Have CRIU not compare the sizes of files that others may add to."""
    names = {file.path.encode() for file in image.open_files if file.grows}

    def change(field: Field) -> bytes | None:
        if field.number != _REGULAR:
            return None
        found = list(fields(field.value))
        if not any(each.number == _NAME and each.value in names for each in found):
            return None
        return b"".join(encoded(each) for each in found if each.number != _SIZE)

    return _changed(image, change) if names else image


def _changed(image: Image, change: Callable[[Field], bytes | None]) -> Image:
    content = (image.folder / _LIST).read_bytes()
    parts = [content[:MAGIC_BYTES]]
    for record in records(content[MAGIC_BYTES:]):
        entry = b""
        for field in fields(record):
            new = change(field) if field.kind == BYTES else None
            entry += encoded(field if new is None else field._replace(value=new))
        parts.append(_LENGTH.pack(len(entry)) + entry)
    return images.replace_file(image, _LIST, b"".join(parts))


def records(content: bytes) -> Iterator[bytes]:
    """What stands behind the magic number, record by record."""
    at = 0
    while at < len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        yield content[at : at + length]
        at += length


def fields(message: int | bytes) -> Iterator[Field]:
    """The fields of a message, as they stand there."""
    assert isinstance(message, bytes)  # noqa: S101 - for the type checker
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        kind = key & 7
        if kind == NUMBER:
            value, at = _number(message, at)
            yield Field(key >> 3, kind, value)
            continue
        if kind == BYTES:
            length, at = _number(message, at)
        else:
            length = _FIXED[kind]
        yield Field(key >> 3, kind, message[at : at + length])
        at += length


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:  # noqa: PLR2004 - the last byte has no eighth bit
            return value, at


def encoded(field: Field) -> bytes:
    """The other way round."""
    key = _digits(field.number << 3 | field.kind)
    if isinstance(field.value, int):
        return key + _digits(field.value)
    if field.kind == BYTES:
        return key + _digits(len(field.value)) + field.value
    return key + field.value


def _digits(value: int) -> bytes:
    digits = bytearray()
    while True:
        low, value = value & 127, value >> 7
        digits.append(low | (128 if value else 0))
        if not value:
            return bytes(digits)
