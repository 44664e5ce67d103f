"""Images as their owner can forge them: other numbers, other rights, in the wire format of CRIU's files."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zlib
from pathlib import Path

from gpucommons.gpu.hibernation import files_image
from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation.inside.calls import CHECKPOINT_RESTORE

#: Where CRIU's file of a thread names them.
_THREAD, _CREDENTIALS, _CAPABILITIES = 5, 10, (9, 10, 11, 12, 19)
#: Of all files in CRIU's second format but its inventory.
_COMMON_MAGIC = 0x54564319.to_bytes(4, "little")
#: A field that CRIU has not, and whose key and length take four bytes.
_UNKNOWN = 2000


def with_capability(core: bytes, capability: int = CHECKPOINT_RESTORE) -> bytes:
    """A thread's file of an image with this capability wherever capabilities are named."""
    word, bit = divmod(capability, 32)
    (record,) = files_image.records(core[files_image.MAGIC_BYTES :])
    changed = _changed(record, (_THREAD, _CREDENTIALS), word, 1 << bit)
    return core[: files_image.MAGIC_BYTES] + len(changed).to_bytes(4, "little") + changed


def in_the_first_format(image: Path, changed: dict[str, bytes]) -> dict[str, bytes]:
    """All files as CRIU's first format had them, with half of the magic number; it is still read.

    Who skips all of that number reads the unchanged files of threads, CRIU the changed ones.
    """
    told = {}
    for path in image.glob("*.img"):
        content = path.read_bytes()
        if path.name == "inventory.img":
            told[path.name] = _with_first_field(content, 1)
        elif content.startswith(_COMMON_MAGIC):
            told[path.name] = content[len(_COMMON_MAGIC) :]
        if path.name in changed:
            told[path.name] = content[4:8] + _two_faced(content, changed[path.name])
    return told


def _two_faced(clean: bytes, hidden: bytes) -> bytes:
    """A record that is the hidden one, and from its fifth byte on the clean one."""
    (shown,) = files_image.records(clean[files_image.MAGIC_BYTES :])
    (record,) = files_image.records(hidden[files_image.MAGIC_BYTES :])
    over_the_hidden = files_image.encoded(
        files_image.Field(_UNKNOWN, files_image.BYTES, record)
    ).removesuffix(record)
    passed_over = files_image.Field(_UNKNOWN, files_image.BYTES, shown + over_the_hidden)
    content = files_image.encoded(passed_over) + record
    return len(content).to_bytes(4, "little") + content


def _with_first_field(content: bytes, value: int) -> bytes:
    """The inventory has half of a magic number in either format; its first field says which it is."""
    half = files_image.MAGIC_BYTES // 2
    (record,) = files_image.records(content[half:])
    changed = b"".join(
        files_image.encoded(each._replace(value=value) if each.number == 1 else each)
        for each in files_image.fields(record)
    )
    return content[:half] + len(changed).to_bytes(4, "little") + changed


def forge(image: Path, changed: dict[str, bytes]) -> None:
    """As its owner can: change files of the image, and the checksums and names that speak of them."""
    path = image / layout.DESCRIPTION
    told = json.loads(path.read_text())
    told["open_files"] = []
    for name, data in changed.items():
        (image / name).write_bytes(data)
    for file in told["files"]:
        data = (image / file["name"]).read_bytes()
        file.update(bytes=len(data), crc32=zlib.crc32(data))
    path.write_text(json.dumps(told))


def archive_over(image: Path, place: str) -> None:
    """Shared memory of an image that, unpacked, writes such threads' files to this place below the root."""
    with tarfile.open(image / layout.SHARED_MEMORY, "w") as archive:
        for path in image.glob("core-*.img"):
            forged = with_capability(path.read_bytes())
            member = tarfile.TarInfo(f"../../{place}/{path.name}")
            member.size = len(forged)
            archive.addfile(member, io.BytesIO(forged))


def _changed(message: bytes, path: tuple[int, ...], word: int, value: int) -> bytes:
    out, seen = b"", dict.fromkeys(_CAPABILITIES, 0)
    for field in files_image.fields(message):
        new = field
        if path and field.number == path[0] and isinstance(field.value, bytes):
            new = field._replace(value=_changed(field.value, path[1:], word, value))
        elif not path and field.number in seen:
            new = field._replace(value=value) if seen[field.number] == word else field
            seen[field.number] += 1
        out += files_image.encoded(new)
    return out


def with_number(data: bytes, old: int, new: int) -> bytes:
    """Every field 1 to 8 of this number gets another, written with as many bytes."""
    before = _varint(old)
    after = (
        bytes([new & 0x7F | 0x80] + [0x80] * (len(before) - 2) + [0])
        if len(before) > 1
        else bytes([new])
    )
    pattern = re.compile(b"([\x08\x10\x18\x20\x28\x30\x38\x40])" + re.escape(before))
    return pattern.sub(lambda found: found[1] + after, data)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
