"""Gets CRIU into the user's own folder, without root: Debian's packages, unpacked and not installed.

The distributions' own CRIU is too old for today's kernels. The newest suite's is taken from the mirror
that this machine uses already, checked against Debian's signature by apt and against our hashes by
us, and started through its own loader. Nothing of the system is touched.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpucommons.gpu.hibernation import criu, pins

#: What all packages may take together, packed.
MOST_BYTES = 64 << 20
_SUITE = "sid"
_SECONDS = 600
_APT = Path("/etc/apt")
_OS_RELEASE = Path("/etc/os-release")
_HASH_CHUNK = 1 << 20
#: Descriptions of graphical programs, many times larger than the list of packages.
_LEFT_OUT = ("DEP-11", "DEP-11-icons-small", "DEP-11-icons", "DEP-11-icons-hidpi",
             "DEP-11-icons-large", "DEP-11-icons-large-hidpi")  # fmt: skip
_DISTRIBUTIONS = {
    "ubuntu": "Install CRIU 4.2 or newer (package `criu`, or CRIU's own archive for Ubuntu).",
    "fedora": "Run `dnf install criu` as an administrator.",
    "arch": "Run `pacman -S criu` as an administrator.",
    "opensuse-tumbleweed": "Run `zypper install criu` as an administrator.",
}


class CannotSetUp(Exception):
    """CRIU cannot be had here without an administrator."""


def set_up(
    folder: Path, say: Callable[[str], None], *, apt: Path = _APT, os_release: Path = _OS_RELEASE
) -> criu.Criu:
    """Unpack CRIU into ``root`` below this folder; what is there and good stays.

    Raises
    ------
    CannotSetUp
        With a sentence that says what would help.
    """
    root = folder / "root"
    there = criu.criu_at(root)
    if there is not None:
        return there
    source = _source(apt, _release(os_release))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix="setup-") as scratch:
            packages = _download(Path(scratch), source, apt)
            _vouch(packages, say)
            unpacked = _unpack(packages, Path(scratch))
            if root.exists():
                shutil.rmtree(root)
            unpacked.rename(root)
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"Getting CRIU failed: {error}."
        raise CannotSetUp(message) from error
    found = criu.criu_at(root)
    if found is None:
        message = f"What was unpacked into {root} does not run here, or is older than 4.2."
        raise CannotSetUp(message)
    return found


def _release(path: Path) -> Mapping[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE)
    return dict(lines)


def _source(apt: Path, release: Mapping[str, str]) -> str:
    """This machine's own entry for Debian, with the newest suite."""
    name = release.get("ID", "this system")
    if name != "debian" or platform.machine() != "x86_64":
        message = _DISTRIBUTIONS.get(
            name, "Install CRIU 4.2 or newer (its package is mostly named `criu`)."
        )
        raise CannotSetUp(message)
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        message = "There is no apt-get here. Install CRIU 4.2 or newer (package `criu`)."
        raise CannotSetUp(message)
    codename = release.get("VERSION_CODENAME", "")
    for stanza in _stanzas(apt):
        suites = stanza.get("suites", "").split()
        if codename in suites and "deb" in stanza.get("types", "").split():
            signed = f"Signed-By: {stanza['signed-by']}\n" if "signed-by" in stanza else ""
            return (
                f"Types: deb\nURIs: {stanza['uris']}\nSuites: {_SUITE}\nComponents: main\n{signed}"
            )
    message = f"{apt} names no mirror of Debian {codename}. Install CRIU 4.2 or newer."
    raise CannotSetUp(message)


def _stanzas(apt: Path) -> Iterable[Mapping[str, str]]:
    for path in sorted((apt / "sources.list.d").glob("*.sources")):
        text = re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for block in re.split(r"\n\s*\n", text):
            fields = re.findall(r"^([\w-]+):[ \t]*((?:.*)(?:\n[ \t].*)*)", block, re.MULTILINE)
            yield {name.lower(): value for name, value in fields}
    for path in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))):
        if path.exists():
            yield from filter(None, map(_one_line, path.read_text(encoding="utf-8").splitlines()))


def _one_line(line: str) -> Mapping[str, str] | None:
    found = re.match(r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uris>\S+)\s+(?P<suites>\S+)", line)
    if not found:
        return None
    signed = re.search(r"signed-by=(\S+)", found["options"] or "")
    fields = {"types": "deb", "uris": found["uris"], "suites": found["suites"]}
    return fields | ({"signed-by": signed[1]} if signed else {})


def _download(scratch: Path, source: str, apt: Path) -> list[Path]:
    """Let apt fetch CRIU and what it needs, as if nothing were installed."""
    for name in ("parts", "conf", "state/lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "parts" / "newest.sources").write_text(source, encoding="utf-8")
    (scratch / "status").touch()
    for path in (apt / "apt.conf.d").glob("*"):
        # The mirror's settings, and none of the programs that run after an update.
        if path.is_file() and "Invoke" not in path.read_text(encoding="utf-8"):
            shutil.copy(path, scratch / "conf")
    config = scratch / "apt.conf"
    config.write_text(_config(scratch), encoding="utf-8")
    _apt_get(config, "update")
    wanted = _apt_get(config, "install", "--no-install-recommends", "--print-uris", "criu")
    total = sum(int(size) for size in re.findall(r"^'[^']*' \S+ (\d+) ", wanted, re.MULTILINE))
    if not 0 < total <= MOST_BYTES:
        message = f"The mirror offers {total} bytes of packages for CRIU; that cannot be right."
        raise CannotSetUp(message)
    _apt_get(config, "install", "--no-install-recommends", "--download-only", "criu")
    return sorted((scratch / "cache" / "archives").glob("*.deb"))


def _config(scratch: Path) -> str:
    lines = [
        f'Dir::Etc::parts "{scratch}/conf";',
        'Dir::Etc::sourcelist "/dev/null";',
        f'Dir::Etc::sourceparts "{scratch}/parts";',
        f'Dir::State "{scratch}/state";',
        f'Dir::State::status "{scratch}/status";',
        f'Dir::Cache "{scratch}/cache";',
        'APT::Sandbox::User "root";',
        'APT::Keep-Downloaded-Packages "true";',
        'Acquire::Languages "none";',
        # What is not signed is not taken, whatever this machine allows elsewhere.
        'APT::Get::AllowUnauthenticated "false";',
        'Acquire::AllowInsecureRepositories "false";',
    ]
    lines += [f'Acquire::IndexTargets::deb::{one}::DefaultEnabled "false";' for one in _LEFT_OUT]
    return "\n".join(lines) + "\n"


def _apt_get(config: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["apt-get", "-q", "-y", *arguments],
        env={**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no reason given"]
        message = f"apt-get {arguments[0]} failed: {words[-1]}"
        raise CannotSetUp(message)
    return done.stdout


def _vouch(packages: Iterable[Path], say: Callable[[str], None]) -> None:
    """Compare with what was tried; apt has checked Debian's signature already."""
    for path in packages:
        name = subprocess.run(
            ["dpkg-deb", "--show", "--showformat", "${Package} ${Version}", str(path)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        ).stdout
        known = pins.TRIED.get(name)
        if known is None:
            say(f"{name} is newer than what was tried; it is signed by Debian.")
        elif known != _sha256(path):
            message = f"{name} has other bytes than it had when it was tried; it is not used."
            raise CannotSetUp(message)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _unpack(packages: Iterable[Path], scratch: Path) -> Path:
    target = scratch / "root"
    target.mkdir()
    for path in packages:
        subprocess.run(
            ["dpkg-deb", "--extract", str(path), str(target)],
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    return target
