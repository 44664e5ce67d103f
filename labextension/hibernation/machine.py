"""Whether this machine can save and wake kernels, found out once for each of its kernels and CRIUs."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.hibernation.criu import Criu, find_criu
from gpucommons.gpu.hibernation.self_test import NO_CRIU, self_test
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.labextension.hibernation.kept import write_private

_PASSED = "self-test.json"
_SELF_TEST_S = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What this machine has to keep kernels with."""

    #: A kernel's processes, by their folder.
    make_tree: Callable[[Path], HibernatableTree]
    has_criu: bool
    #: A sentence why it cannot; None where it can. Takes a second where nobody has asked before.
    why_not: Callable[[], str | None]


def this_machine(environ: Mapping[str, str], folder: Path) -> Machine:
    """This machine. A self-test that passed is noted in this folder."""
    found = find_criu(environ)
    criu = found or Criu(command=(), version="")

    def make_tree(place: Path) -> HibernatableTree:
        output = place.with_name("kernel-output.log")
        return HibernatableTree(place, criu, orphaned="save", output=output, close_connections=True)

    def why_not() -> str | None:
        try:
            return NO_CRIU if found is None else _tested(found, folder)
        except OSError as error:
            return f"Whether this machine can do it could not be tested ({error.strerror})."

    return Machine(make_tree=make_tree, has_criu=found is not None, why_not=why_not)


def _tested(criu: Criu, folder: Path) -> str | None:
    """Only what passed is remembered: what failed may have been mended since."""
    here = {"criu": [*criu.command, criu.version], "system": list(platform.uname())}
    try:
        if json.loads((folder / _PASSED).read_bytes()) == here:
            return None
    except (OSError, ValueError):
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ability = self_test(criu, folder, _SELF_TEST_S)
    if not ability.can_hibernate:
        return ability.because
    write_private(folder / _PASSED, json.dumps(here))
    return None
