"""Event files as TensorBoard writes them, record by record."""

from __future__ import annotations

import struct

from gpucommons.scheduler.curves.event_watch import masked_crc

START_S = 1000.0
NAME = "events.out.tfevents.1000.host.1.0"


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field_bytes(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(body: bytes) -> bytes:
    length = struct.pack("<Q", len(body))
    ends = (struct.pack("<I", masked_crc(part)) for part in (length, body))
    return length + next(ends) + body + next(ends)


def event(
    step: int, tag: str, value: float, *, at_s: float = START_S, tensor: bool = False
) -> bytes:
    if tensor:  # as TensorFlow 2 writes a scalar
        body = varint(1 << 3) + varint(1) + field_bytes(4, struct.pack("<f", value))
        held = field_bytes(8, body)
    else:
        held = varint(2 << 3 | 5) + struct.pack("<f", value)
    summary = field_bytes(1, field_bytes(1, tag.encode()) + held)
    head = varint(1 << 3 | 1) + struct.pack("<d", at_s) + varint(2 << 3) + varint(step)
    return record(head + field_bytes(5, summary))
