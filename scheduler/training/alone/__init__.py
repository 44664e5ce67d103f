"""``gpucommons.scheduler.training`` for environments that have nothing of ours.

A folder with these few files goes last on such a job's Python path: only the standard library is
imported, and there is no ``__init__`` above ``training``, so that an installed GPU Commons wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpucommons.scheduler.files.durable_files import write_whole
from gpucommons.scheduler.in_worker import FILES as IN_WORKER

_PACKAGE = Path(__file__).parents[3]
_CALLBACKS = ("__init__.py", "handing_in.py", "keras.py", "lightning.py", "transformers.py")
#: Module below ``gpucommons/scheduler`` → the file that it is a copy of.
_OF_SCHEDULER = {
    "data_loading.py": "data_loading.py",
    "errors.py": "errors.py",
    "files/durable_files.py": "files/durable_files.py",
    "in_pod/told_files.py": "in_pod/told_files.py",
    "in_pod/worker.py": "in_pod/worker.py",
    "training/__init__.py": "training/__init__.py",
    **{f"training/callbacks/{name}": f"training/callbacks/{name}" for name in _CALLBACKS},
    "training/checkpoints.py": "training/checkpoints.py",
    "training/loaders.py": "training/loaders.py",
    "training/loading.py": "training/loading.py",
    "training/run.py": "training/run.py",
    "client.py": "training/alone/client.py",
    "models.py": "training/alone/models.py",
}
#: The same below ``gpucommons``.
_FILES = {
    **{path: path for path in IN_WORKER},
    **{f"scheduler/{path}": f"scheduler/{source}" for path, source in _OF_SCHEDULER.items()},
}


def files() -> Iterator[tuple[str, bytes]]:
    """Path below the folder, and content."""
    for path, source in _FILES.items():
        yield f"gpucommons/{path}", (_PACKAGE / source).read_bytes()


def lay_out(folder: Path) -> Path:
    """Make or renew the folder, for everybody to read; what is right already stays."""
    for path, content in files():
        target = folder / path
        for parent in reversed(target.relative_to(folder).parents):
            made = folder / parent
            made.mkdir(parents=True, exist_ok=True)
            made.chmod(0o755)
        if not target.exists() or target.read_bytes() != content:
            write_whole(target, content, mode=0o644)
    return folder
