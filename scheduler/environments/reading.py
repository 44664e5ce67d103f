"""One environment, read from its files: what it is called, its Python, and what it can run."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: What is read of a small file.
_MAX_BYTES = 64 << 10
_VERSION = re.compile(r"\d+\.\d+")
_CONDA_PYTHON = re.compile(r"^python-(\d+\.\d+)[\d.]*-[^/]*\.json$")
_LIBRARY = re.compile(r"^python(\d+\.\d+)$")
_DISTRIBUTION = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)\.(?:dist|egg)-info$")
#: Names of a folder that say nothing: the folder above it does.
_UNTOLD = frozenset({".venv", "venv", "env", ".env"})
#: More packages than this are not compared.
_MAX_PACKAGES = 5_000
#: More folders than this are not looked into from one.
_MAX_LEADS = 50


class NoEnvironment(ValueError):
    """It cannot be used; the message is a sentence for who asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A Python environment of the machine."""

    #: The folder that holds ``bin/python3``, with every link followed.
    path: str
    name: str
    #: ``3.12``; "" where its files do not say.
    python: str

    def text(self) -> str:
        """``torch (Python 3.12)``."""
        return f"{self.name} (Python {self.python})" if self.python else self.name


def read_environment(folder: str, *, name: str = "") -> Environment:
    """Read the environment in a folder; a path to its Python is taken for it.

    Raises
    ------
    NoEnvironment
        When it is not there, or has no Python that can be run.
    """
    try:
        found = Path(os.path.realpath(_of_program(folder), strict=True))
    except (OSError, ValueError):
        message = f"There is no environment {folder}: it is not there, or not for you to read."
        raise NoEnvironment(message) from None
    python = found / "bin" / "python3"
    if not os.access(python, os.X_OK):
        if python.is_symlink():
            message = (
                f"The Python of {found} is gone: bin/python3 leads to {python.readlink()}, which is"
                " not there. Make the environment anew."
            )
        else:
            message = f"{found} is no Python environment: it has no bin/python3 that can be run."
        raise NoEnvironment(message)
    return Environment(path=str(found), name=name or _name_of(found), python=_python_version(found))


def _of_program(path: str) -> str:
    """The environment of ``…/bin/python3.12``, whose own link would lead out of it."""
    folder, name = os.path.split(path)
    is_python = name.startswith("python") and os.path.basename(folder) == "bin"  # noqa: PTH119 - text
    return os.path.dirname(folder) if is_python else path  # noqa: PTH120 - text, not a file


def packages_in(path: str) -> dict[str, str]:
    """Its packages by name, read from the names of their folders; nothing of it runs."""
    found: dict[str, str] = {}
    for folder in _site_packages(Path(path)):
        for name in _names(folder):
            match = _DISTRIBUTION.match(name)
            if match is not None and len(found) < _MAX_PACKAGES:
                found[match["name"].replace("_", "-").lower()] = match["version"]
    return found


def lacks(path: str, module: str, *, home: Path | None = None) -> bool:
    """Whether a module is known not to be there: what may come from elsewhere is not known.

    ``home`` may have packages of its own, which all but virtual environments see.
    """
    place = Path(path)
    folders = list(_site_packages(place))
    if not folders or _sees_more(place):
        return False
    if home is not None and not _settings(place):
        folders += _site_packages(home / ".local")
    return not any(_has(folder, module) for folder in folders)


def _has(folder: Path, module: str) -> bool:
    """Whether a folder of packages has a module, or leads to a folder that has it."""
    names = _names(folder)
    if _is_among(module, names):
        return True
    leads = (read_small(folder / name) for name in names if name.endswith(".pth"))
    lines = [line.strip() for text in leads for line in text.decode(errors="replace").splitlines()]
    further = [line for line in lines if line and not line.startswith(("#", "import ", "import\t"))]
    return any(_is_among(module, _names(folder / line)) for line in further[:_MAX_LEADS])


def _is_among(module: str, names: Iterable[str]) -> bool:
    """Also one that is installed from where it is written, of which only its record lies there."""
    return any(
        name in (module, f"{module}.py")
        or ((match := _DISTRIBUTION.match(name)) is not None and match["name"].lower() == module)
        for name in names
    )


def unknown_programs(path: str, programs: Iterable[str], *, search: str) -> list[str]:
    """Which of these programs are found neither in the environment nor on the machine's own path."""
    folders = os.pathsep.join([f"{path}/bin", search])
    return [program for program in programs if shutil.which(program, path=folders) is None]


def _name_of(folder: Path) -> str:
    prompt = _settings(folder).get("prompt", "").strip("'\"()[] ")
    if prompt:
        return prompt
    return folder.parent.name if folder.name in _UNTOLD else folder.name


def _python_version(folder: Path) -> str:
    settings = _settings(folder)
    match = _VERSION.match(settings.get("version", settings.get("version_info", "")))
    if match:
        return match[0]
    found = [m[1] for name in _names(folder / "conda-meta") if (m := _CONDA_PYTHON.match(name))]
    found += [m[1] for name in _names(folder / "lib") if (m := _LIBRARY.match(name))]
    return found[0] if found else ""


def _settings(folder: Path) -> dict[str, str]:
    lines = read_small(folder / "pyvenv.cfg").decode(errors="replace").splitlines()
    pairs = (line.partition("=") for line in lines)
    return {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}


def _sees_more(folder: Path) -> bool:
    return _settings(folder).get("include-system-site-packages", "").lower() == "true"


def _site_packages(folder: Path) -> Iterable[Path]:
    for name in _names(folder / "lib"):
        if _LIBRARY.match(name):
            for kind in ("site-packages", "dist-packages"):
                if (folder / "lib" / name / kind).is_dir():
                    yield folder / "lib" / name / kind


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def read_small(path: Path) -> bytes:
    """The beginning of a regular file; nothing of a FIFO or device, which would be waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, _MAX_BYTES) if regular else b""
    finally:
        os.close(descriptor)
