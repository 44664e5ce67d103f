"""The layers of our images: a small Debian, its Python packages, our wheel.

Each is kept by the hash of what it was made from, so that a second build makes only what changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from deploy.release.archive import Written, compress, pack
from deploy.release.contents import UID, CannotRelease, Debian, Image

#: Counts changes of this module that change what comes out.
LAYOUT = 1
PREFIX = "usr/local"
#: Older, a base is made anew: a week of Debian's updates is missing at most.
_BASE_KEPT_S = 7 * 86_400
#: Whatever is dated in an image is dated so.
EPOCH = "1700000000"
#: What the loader lists: a library's name, and where it would be found.
_LOADED = re.compile(r"^\s*(\S+) => (\S+)", re.MULTILINE)
#: pip's and uv's own, which say where a package was installed from, and when.
_NOTES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")


class Workshop:
    """Makes layers into a folder."""

    def __init__(self, folder: Path, debian: Debian) -> None:
        self._folder = folder
        self._debian = debian
        folder.mkdir(parents=True, exist_ok=True)

    def system(self) -> Written:
        """Debian with Python, and the virtual environment that everything else goes into."""
        tar = self.debian

        def fill(folder: Path) -> None:
            python = f"python{self._debian.python}"
            binaries = folder / PREFIX / "bin"
            binaries.mkdir(parents=True)
            for name in ("python", "python3", python):
                (binaries / name).symlink_to(f"/usr/bin/{python}")
            (folder / PREFIX / "pyvenv.cfg").write_text(
                f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {self._debian.python}\n"
            )

        return self._layer("environment", [tar.digest], fill)

    def packages(self, name: str, lock: Path, image: Image) -> Written:
        """Locked packages, compiled by the image's own Python."""

        def fill(folder: Path) -> None:
            self._install(folder, ["-r", str(lock)])
            _leave_out(folder, image.without)
            self._compile(folder)
            self._check_libraries(folder)

        facts = [lock.read_text(), image.without, self.debian.digest]
        return self._layer(name, facts, fill)

    def wheel(self, image: Image, wheel: Path) -> Written:
        """Our own package, and the account it runs as."""

        def fill(folder: Path) -> None:
            self._install(folder, [str(wheel)])
            self._compile(folder)
            self._add_account(folder, image)

        facts = [_hash(wheel.read_bytes()), image.account, image.home, self.debian.digest]
        owned = frozenset({image.home.strip("/")})
        return self._layer(f"{image.name}-wheel", facts, fill, owned)

    def status(self) -> str:
        """What dpkg says is installed in the base."""
        return (self._root() / "var/lib/dpkg/status").read_text()

    def _layer(
        self,
        name: str,
        facts: Sequence[object],
        fill: Callable[[Path], None],
        owned: frozenset[str] = frozenset(),
    ) -> Written:
        key = _hash(json.dumps([LAYOUT, *facts]).encode())[:16]
        made = self._folder / f"{name}-{key}.tar.gz"
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=self._folder, prefix="gc-layer-") as scratch:
                inside = Path(scratch) / "root"
                inside.mkdir()
                fill(inside)
                partial = Path(scratch) / "layer.gz"
                pack(inside, partial, owned=owned, uid=UID)
                partial.rename(made)
        return Written.of(made)

    @cached_property
    def debian(self) -> Written:
        """The base alone; its bytes are read once. Debian mends its packages, so it is not kept for long."""
        debian = self._debian
        facts = [LAYOUT, debian.suite, debian.packages, debian.without]
        made = self._folder / f"debian-{_hash(json.dumps(facts).encode())[:16]}.tar.gz"
        if not made.exists() or time.time() - made.stat().st_mtime > _BASE_KEPT_S:
            tar = made.with_suffix("")
            _bootstrap(debian, tar)
            partial = made.with_suffix(".partial")
            compress(tar, partial)
            tar.unlink()
            partial.rename(made)
        return Written.of(made)

    def _root(self) -> Path:
        """The base unpacked, to run its Python and read its lists."""
        base = self.debian
        folder = self._folder / f"root-{base.digest[:16]}"
        if not folder.exists():
            partial = Path(tempfile.mkdtemp(dir=self._folder, prefix="gc-root-"))
            # Its devices need root and are not needed: programs are started through its loader.
            unpack = ["tar", "-xzf", str(base.path), "--no-same-owner", "--exclude=./dev/*"]
            _run([*unpack, "-C", str(partial)], "The base cannot be unpacked")
            partial.rename(folder)
        return folder

    def _install(self, folder: Path, what: list[str]) -> None:
        target = folder / "target"
        command = [
            *(str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--no-deps"),
            *("--target", str(target), "--python-version", self._debian.python),
            *("--python-platform", "x86_64-manylinux_2_36", "--link-mode", "copy", *what),
        ]
        _run(command, "The packages cannot be installed")
        _arrange(target, folder / PREFIX, self._debian.python)

    def _check_libraries(self, folder: Path) -> None:
        """Whatever compiled modules load is in the image: else a pod would find out."""
        libraries = self._root() / "usr/lib/x86_64-linux-gnu"
        loader = [
            str(libraries / "ld-linux-x86-64.so.2"),
            "--library-path",
            str(libraries),
            "--list",
        ]
        within = (str(libraries), str(folder.resolve()))
        for module in sorted(folder.resolve().rglob("*.so")):
            listed = subprocess.run(
                [*loader, str(module)], check=False, capture_output=True, text=True
            )
            # The loader looks into this machine's folders, too, which the image has not.
            for name, found in _LOADED.findall(listed.stdout):
                if not found.startswith(within):
                    message = (
                        f"{module.name} needs {name}, which the image lacks: add Debian's package of"
                        " it to contents.toml."
                    )
                    raise CannotRelease(message)

    def _compile(self, folder: Path) -> None:
        """By unchecked hash: bytes that depend on no time."""
        root = self._root()
        libraries = root / "usr/lib/x86_64-linux-gnu"
        packages = folder / PREFIX / "lib" / f"python{self._debian.python}" / "site-packages"
        command = [
            *(str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries)),
            *(str(root / f"usr/bin/python{self._debian.python}"), "-m", "compileall", "-q"),
            *("--invalidation-mode", "unchecked-hash"),
            *("-s", str(folder), "-p", "/", str(packages)),
        ]
        # Templates of packages are no modules: what does not compile is left as it is.
        environment = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "PATH": "/usr/bin"}
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)

    def _add_account(self, folder: Path, image: Image) -> None:
        (folder / image.home.strip("/")).mkdir(parents=True)
        (folder / "etc").mkdir(exist_ok=True)
        added = {
            "passwd": f"{image.account}:x:{UID}:{UID}::{image.home}:/bin/bash\n",
            "group": f"{image.account}:x:{UID}:\n",
        }
        for name, line in added.items():
            (folder / "etc" / name).write_text((self._root() / "etc" / name).read_text() + line)


def _bootstrap(debian: Debian, tar: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        message = "A base image needs mmdebstrap: `apt-get install mmdebstrap`, then again."
        raise CannotRelease(message)
    command = [
        *("mmdebstrap", "--quiet", "--variant=essential"),
        f"--include={','.join(sorted(debian.packages))}",
        *(f"--dpkgopt=path-exclude={one}" for one in debian.without),
        *(debian.suite, str(tar)),
    ]
    _run(command, "The base cannot be made", SOURCE_DATE_EPOCH=EPOCH)


def _arrange(target: Path, prefix: Path, python: str) -> None:
    """What uv laid into one folder, where a virtual environment has it."""
    packages = prefix / "lib" / f"python{python}" / "site-packages"
    packages.mkdir(parents=True)
    for path in sorted(target.iterdir()):
        if path.name == "bin":
            for script in path.iterdir():
                _readdress(script)
        elif path.name.startswith(".") or path.name == "include":
            continue
        path.rename((prefix if path.name in ("bin", "share", "etc") else packages) / path.name)
    shutil.rmtree(target)
    for notes in packages.glob("*.dist-info"):
        for name in _NOTES:
            (notes / name).unlink(missing_ok=True)
    for tests in [one for one in packages.rglob("tests") if one.is_dir()]:
        shutil.rmtree(tests, ignore_errors=True)


def _readdress(script: Path) -> None:
    """A command is run by the image's Python, and not by the one that installed it."""
    first, _, rest = script.read_bytes().partition(b"\n")
    if first.startswith(b"#!") and b"python" in first:
        script.write_bytes(b"#!/usr/local/bin/python3\n" + rest)


def _leave_out(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        shutil.rmtree(folder / PREFIX / name, ignore_errors=True)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _run(command: list[str], what: str, **environment: str) -> None:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        message = f"{what}: {done.stderr.strip()[-2000:]}"
        raise CannotRelease(message)
