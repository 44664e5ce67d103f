"""A program that does with the driver what it is told: one JSON list per line in and out.

``["cuMemAlloc_v2", "out", 4096]`` calls that function; ``"out"`` is a number that it fills in,
text in hexadecimal a structure that it reads. The answer is its result and what it filled in.
``["fork"]`` goes on in a child, ``["exec"]`` in a new program, ``["look"]`` asks the driver for a
function by name, version and flags and calls that one from then on.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any


def _call(library: ctypes.CDLL, found: dict[str, Any], words: list[Any]) -> list[int]:
    outs: list[ctypes.c_uint64] = []
    arguments: list[Any] = []
    for word in words[1:]:
        if word == "out":
            outs.append(ctypes.c_uint64())
            arguments.append(ctypes.byref(outs[-1]))
        elif isinstance(word, str):
            arguments.append(ctypes.create_string_buffer(bytes.fromhex(word)))
        else:
            arguments.append(ctypes.c_uint64(word))
    function = found.get(words[0]) or getattr(library, words[0])
    return [function(*arguments), *(out.value for out in outs)]


def _look(library: ctypes.CDLL, found: dict[str, Any], words: list[Any]) -> list[int]:
    _, symbol, version, flags = words
    address, status = ctypes.c_void_p(), ctypes.c_int()
    answer = library.cuGetProcAddress_v2(
        symbol.encode(), ctypes.byref(address), version, ctypes.c_uint64(flags),
        ctypes.byref(status),
    )  # fmt: skip
    if address.value:
        found[symbol] = ctypes.CFUNCTYPE(ctypes.c_int)(address.value)
        found[symbol].argtypes = None
    return [answer, status.value]


def _main() -> None:
    library = ctypes.CDLL("libcuda.so.1")
    found: dict[str, Any] = {}
    for line in iter(sys.stdin.readline, ""):
        words = json.loads(line)
        if words == ["fork"]:
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                os._exit(0)
            answer = [os.getpid()]
        elif words == ["exec"]:
            os.execv(sys.executable, [sys.executable, __file__, "again"])  # noqa: S606 - exec is the test
        elif words[0] == "look":
            answer = _look(library, found, words)
        else:
            answer = _call(library, found, words)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["again"]:
        sys.stdout.write("[0]\n")
        sys.stdout.flush()
    _main()
