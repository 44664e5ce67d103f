"""Layers of images from this machine's own files; `deploy.release.archive` makes images of them."""

import importlib.util
import io
import py_compile
import re
import subprocess
import tarfile
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A tar of files: where each lies in the image and where it comes from here."""

    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    #: Programs of the texts; all else keeps the mode of its source.
    executable: frozenset[str] = frozenset()
    folders: Mapping[str, int] = field(default_factory=dict)
    #: With what Python makes of its modules: else each process in a pod would make it anew.
    compiled: bool = False

    def write(self, path: Path) -> None:
        """Write the tar, its times zero, so that the same files give the same digest."""
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
            for name, mode in self.folders.items():
                row = tarfile.TarInfo(name.strip("/"))
                row.type, row.mode = tarfile.DIRTYPE, mode
                tar.addfile(row)
            for name, source in sorted(self.files.items()):
                _add_file(tar, name.strip("/"), source)
                if self.compiled and source.suffix == ".py":
                    _add_compiled(tar, name.strip("/"), source)
            for name, text in sorted(self.texts.items()):
                row = tarfile.TarInfo(name.strip("/"))
                row.mode = 0o755 if name in self.executable else 0o644
                row.size = len(text.encode())
                tar.addfile(row, io.BytesIO(text.encode()))


def _add_compiled(tar: tarfile.TarFile, name: str, source: Path) -> None:
    """A module as Python reads it, which is never compared with its source: that has no time here."""
    with tempfile.NamedTemporaryFile() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            py_compile.compile(
                str(source),
                cfile=made.name,
                dfile=f"/{name}",
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except py_compile.PyCompileError:
            return  # a template, or of another Python: nobody imports it
        _add_file(tar, importlib.util.cache_from_source(name), Path(made.name))


def _add_file(tar: tarfile.TarFile, name: str, source: Path) -> None:
    row = tarfile.TarInfo(name)
    stat = source.stat()
    row.mode, row.size = (0o755 if stat.st_mode & 0o111 else 0o644), stat.st_size
    with source.open("rb") as content:
        tar.addfile(row, content)


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that programs or other libraries load, by the name they ask for."""
    found: dict[str, Path] = {}
    paths = [str(path) for path in programs]
    for start in range(0, len(paths), 200):
        answer = subprocess.run(
            ["ldd", *paths[start : start + 200]], check=False, capture_output=True, text=True
        ).stdout
        for path in re.findall(r"(?:=>\s*|^\s+)(/\S+) \(0x", answer, re.MULTILINE):
            found[path] = Path(path)
    return found
