"""What runs before a job's command in each of its pods, as the job's user: the init container.

It brings the files that were taken at submit and, where they lie in object storage, those that the
attempt before had changed and those of the checkpoint to resume from. What it brings is what was
promised, by hash, or the pod does not start. What the snapshot left out is linked from the home folder.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import secrets
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons import gpu
from gpucommons.scheduler import in_worker
from gpucommons.scheduler.files.confined_files import Refused as BadFiles
from gpucommons.scheduler.files.confined_files import open_folder, remove, unpack
from gpucommons.scheduler.in_pod import kept_files, tree, worker
from gpucommons.scheduler.in_pod.worker import (
    Api,
    Refused,
    Unreachable,
    patiently,
    say,
    tell_kubelet,
)
from gpucommons.scheduler.training.checkpoints import folder_name, measure
from gpucommons.scheduler.working_folder.home_links import link_left_out

_CHUNK_BYTES = 1 << 20
#: Of one pod; on a volume that all pods mount it lies in the attempt's folder.
_OWN_WORK = "work"
#: The scheduler's group hands it over and reads the results.
_SHARED = 0o2770


class NotPrepared(Exception):
    """The pod cannot start; the message is for the job's user."""


#: What stands above the command, and what it imports.
_WORKER = (
    "__init__.py",
    "command.py",
    "kept_files.py",
    "starting.py",
    "told_files.py",
    "tree.py",
    "worker.py",
)
_BESIDE = ("event_watch.py",)
#: Of `gpu`, what saving and waking processes is made of, and what that imports.
_FOR_TREES = ("devices", "hibernation", "linux", "parking", "shim")


def _modules(root: Path) -> Path:
    return root / "bin" / "worker" / "gpucommons" / "scheduler" / "in_pod"


def _copy_worker(root: Path) -> None:
    """As a folder that Python runs, with the packages around it, whatever the image holds."""
    here, there = Path(worker.__file__).parent, _modules(root)
    there.mkdir(parents=True, exist_ok=True)
    # A package without this file would give way to one of its name in the image.
    (there.parent.parent / "__init__.py").touch()
    (there.parent / "__init__.py").touch()
    for name in _WORKER:
        shutil.copyfile(here / name, there / name)
    curves = there.parent / "curves"
    curves.mkdir(exist_ok=True)
    (curves / "__init__.py").touch()
    for name in _BESIDE:
        shutil.copyfile(here.parent / "curves" / name, curves / name)
    shutil.copyfile(here / "__main__.py", root / "bin" / "worker" / "__main__.py")
    if tree.VARIABLE in os.environ:
        _copy_trees(there.parent.parent)
    copy_in_worker(root / "bin" / "in_worker")


def _copy_trees(package: Path) -> None:
    """What saves and wakes processes. Dates stay: what a woken process has open must be unchanged."""
    ours = Path(gpu.__file__).parent
    shutil.copyfile(ours / "__init__.py", _made(package / "gpu") / "__init__.py")
    for name in _FOR_TREES:
        shutil.copytree(
            ours / name, package / "gpu" / name, ignore=shutil.ignore_patterns("__pycache__", "*.c"),
            dirs_exist_ok=True,
        )  # fmt: skip
    for name in ("errors.py", "extras.py"):
        shutil.copyfile(ours / name, package / "gpu" / name)
    scheduler = Path(worker.__file__).parents[1]
    for folder, name in (("working_folder", "own_image.py"), ("files", "confined_files.py")):
        there = _made(package / "scheduler" / folder)
        (there / "__init__.py").touch()
        shutil.copyfile(scheduler / folder / name, there / name)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def copy_in_worker(place: Path) -> None:
    """Apart from the rest, as a folder that Python runs."""
    source = Path(in_worker.__file__).parents[2]
    for path in in_worker.FILES:
        target = place / "gpucommons" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in target.relative_to(place).parents[:-1]:
            (place / folder / "__init__.py").touch()
        shutil.copyfile(source / path, target)
    shutil.copyfile(source / "scheduler" / "in_worker" / "__main__.py", place / "__main__.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """What the snapshot left out, and where in the home folder it is linked from."""

    home: Path
    below: str
    paths: list[str]


def prepare(
    api: Api,
    root: Path,
    *,
    patience_s: float = worker.PATIENCE_S,
    work: str = "work",
    left_out: LeftOut | None = None,
) -> None:
    """Fill the pod's folder; ``work`` is where in it commands run.

    Raises
    ------
    NotPrepared, Refused, Unreachable, BadFiles, OSError
        When something cannot be had as it should be.
    """
    for name in ("bin", "notice", "attempt"):
        (root / name).mkdir(exist_ok=True)
    _copy_worker(root)
    inputs = api.get("/v1/attempt/inputs")
    if work == _OWN_WORK:
        # A container that is restarted begins anew.
        shutil.rmtree(root / work, ignore_errors=True)
    patiently(lambda: _bring_snapshot(api, root, root / work, inputs["snapshot"]), patience_s)
    for entry in _inside(inputs["work"] or [], "the working folder"):
        place = _place(root / work, entry["path"])
        patiently(lambda e=entry, p=place: _bring_file(e, p), patience_s)  # type: ignore[misc] # bound now
    if left_out is not None:
        link_left_out(root / work, left_out.home, left_out.below, left_out.paths)
    checkpoint = inputs["checkpoint"]
    if checkpoint is not None and checkpoint["files"] is not None:
        _bring_checkpoint(root / "resume", checkpoint, patience_s)


def _bring_snapshot(api: Api, root: Path, work: Path, wanted: Mapping[str, Any] | None) -> None:
    """Fill the working folder, unless it was handed over or another worker was faster."""
    partial = work.with_name(f".work.{secrets.token_hex(8)}.partial")
    partial.mkdir(mode=_SHARED)
    try:
        known = {} if wanted is None else _unpacked(api, root, partial, wanted)
        (_modules(root) / kept_files.BASELINE).write_text(json.dumps(known))
        if not work.is_dir():
            with suppress(OSError):
                partial.rename(work)  # fails where another one lies there by now
        if not work.is_dir():
            message = f"{work.name} is in the way of the job's working folder"
            raise NotPrepared(message)
    finally:
        remove(partial)


def _unpacked(api: Api, root: Path, target: Path, wanted: Mapping[str, Any]) -> dict[str, int]:
    """Unpack the snapshot; returns the sizes of its files."""
    spooled = root / ".snapshot.tar"
    if wanted["link"] is not None:
        worker.fetch([wanted["link"]], spooled)
    else:
        _fetch_from_scheduler(api, spooled)
    with spooled.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != wanted["sha256"]:
            # Cut short, as by a scheduler that was restarted: the next try begins anew.
            raise Unreachable("the job's files did not come whole")
        file.seek(0)
        unpack(file, target, max_bytes=wanted["max_unpacked_bytes"])
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r|") as archive:
            known = {_plain(one.name): one.size for one in archive if one.isreg() and not one.mtime}
    spooled.unlink()
    return known


def _plain(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _fetch_from_scheduler(api: Api, target: Path) -> None:
    try:
        with api.open("GET", "/v1/attempt/snapshot") as response, target.open("wb") as file:
            shutil.copyfileobj(response, file, _CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"the job's files stopped coming: {error}") from None


def _bring_checkpoint(resume: Path, wanted: Mapping[str, Any], patience_s: float) -> None:
    shutil.rmtree(resume, ignore_errors=True)
    target = resume / folder_name(wanted["path"])
    target.mkdir(parents=True)
    for entry in _inside(wanted["files"], "the checkpoint"):
        place = _place(target, entry["path"])
        patiently(lambda e=entry, p=place: _bring_file(e, p), patience_s)  # type: ignore[misc] # bound now
    size_bytes, sha256 = measure(target)
    if (size_bytes, sha256) != (wanted["size_bytes"], wanted["sha256"]):
        message = (
            f"the checkpoint {wanted['path']} is not what its receipt says: {size_bytes:,} bytes"
            f" instead of {wanted['size_bytes']:,}, or other content"
        )
        raise NotPrepared(message)


def _place(target: Path, path: str) -> Path:
    """Where a file goes; its folder is made, and no link on the way is followed."""
    folder, _, name = path.rpartition("/")
    os.close(open_folder(target, tuple(part for part in folder.split("/") if part)))
    return target / folder / name


def _inside(files: list[dict[str, Any]], what: str) -> Iterator[dict[str, Any]]:
    for entry in files:
        if entry["path"].startswith("/") or ".." in entry["path"].split("/"):
            message = f"{what} holds {entry['path']!r}, which lies outside its folder"
            raise NotPrepared(message)
        yield entry


def _bring_file(entry: Mapping[str, Any], place: Path) -> None:
    if worker.fetch(entry["links"], place) != entry["size_bytes"]:
        raise Unreachable(f"{entry['path']} came only in part")


def main() -> int:
    """Prepare the pod's folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path("/gpucommons"))
    parser.add_argument("--work", default=_OWN_WORK, help="below the root")
    parser.add_argument("--patience-s", type=float, default=worker.PATIENCE_S)
    parser.add_argument("--home", type=Path, help="the owner's home folder")
    parser.add_argument("--below", default=".", help="folder of the home that was submitted")
    parser.add_argument("--link", dest="links", action="append", default=[])
    arguments = parser.parse_args()
    left_out = None
    if arguments.links:
        left_out = LeftOut(home=arguments.home, below=arguments.below, paths=arguments.links)
    environ, patience_s = os.environ, arguments.patience_s
    api = Api(environ["GPUCOMMONS_URL"], environ["GPUCOMMONS_TOKEN"], patience_s=patience_s)
    try:
        prepare(api, arguments.root, patience_s=patience_s, work=arguments.work, left_out=left_out)
    except (
        NotPrepared,
        Refused,
        Unreachable,
        BadFiles,
        OSError,
        tarfile.TarError,
    ) as error:
        say(str(error))
        tell_kubelet(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
