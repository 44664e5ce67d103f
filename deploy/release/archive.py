"""OCI images without a container engine: layers as tars, and the archive around them.

The same files give the same bytes: names are sorted, times and owners are fixed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, kw_only=True)
class Written:
    """A layer as an image names it; without a path it is known to the importer already."""

    digest: str
    size: int
    path: Path | None = None
    #: Of the tar inside, where the layer is compressed.
    content: str | None = None

    @classmethod
    def of(cls, path: Path) -> Written:
        """A layer that was just written; one that ends in `.gz` is compressed."""
        content = None
        if path.suffix == ".gz":
            with gzip.open(path) as tar:
                content = _digest(tar)
        with path.open("rb") as blob:
            return cls(digest=_digest(blob), size=path.stat().st_size, path=path, content=content)

    def described(self) -> dict[str, object]:
        """How a manifest names it."""
        kind = LAYER if self.content is None else f"{LAYER}+gzip"
        return {"mediaType": kind, "digest": f"sha256:{self.digest}", "size": self.size}


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a container of an image starts."""

    user: str = "1000:1000"
    workdir: str = "/home/user"
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, object]:
        """As an image's configuration says it."""
        return {
            "User": self.user,
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.command),
            "Env": [f"{name}={value}" for name, value in self.environment.items()],
            "WorkingDir": self.workdir,
            "Labels": dict(self.labels),
        }


def write_archive(archive: Path, reference: str, layers: Sequence[Written], run: Run) -> str:
    """Write an archive of one image, as `ctr images import` and `skopeo copy` read it; its digest."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": run.described(),
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{layer.content or layer.digest}" for layer in layers],
        },
    }
    config_blob = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config_blob),
        "layers": [layer.described() for layer in layers],
    }
    manifest_blob = json.dumps(manifest).encode()
    top = _descriptor(MANIFEST, manifest_blob) | {
        "annotations": {
            "io.containerd.image.name": reference,
            "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
        }
    }
    index = {"schemaVersion": 2, "manifests": [top]}
    part = archive.with_name(f"{archive.name}.part")
    with tarfile.open(part, "w") as tar:
        _add_blob(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add_blob(tar, "index.json", json.dumps(index).encode())
        for blob in (config_blob, manifest_blob):
            _add_blob(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for layer in {one.digest: one for one in layers}.values():
            if layer.path is not None:
                with layer.path.open("rb") as content:
                    row = tarfile.TarInfo(f"blobs/sha256/{layer.digest}")
                    row.size = layer.size
                    tar.addfile(row, content)
    # Whoever is killed above leaves no half archive under the name of a whole one.
    part.replace(archive)
    return str(top["digest"])


def damage(archive: Path) -> str:
    """What is wrong with an archive, as one that was cut off on its way; "" where it is whole."""
    try:
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
            for name in sorted(names):
                blob = tar.extractfile(name) if name.startswith("blobs/sha256/") else None
                if blob is not None and _digest(blob) != name.rpartition("/")[2]:
                    return f"{name} is not what its name says"
            top = _read(tar, "index.json")["manifests"][0]["digest"]
            manifest = _read(tar, _blob_of(top))
            needed = [one["digest"] for one in (manifest["config"], *manifest["layers"])]
    except (tarfile.TarError, OSError, KeyError, ValueError) as error:
        return f"it ends too early or is no archive of an image ({error})"
    lacking = [one for one in needed if _blob_of(one) not in names]
    return f"it lacks {', '.join(lacking)}" if lacking else ""


def _blob_of(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _read(tar: tarfile.TarFile, name: str) -> Any:
    found = tar.extractfile(name)
    if found is None:
        raise KeyError(name)
    return json.load(found)


def pack(folder: Path, layer: Path, *, owned: frozenset[str] = frozenset(), uid: int = 0) -> None:
    """Write all of a folder as a compressed layer; ``owned`` folders belong to ``uid``."""
    with layer.open("wb") as raw, _compressed(raw) as packed, _tar(packed) as tar:
        for path in sorted(folder.rglob("*")):
            row = _row(path, path.relative_to(folder).as_posix())
            row.uid = row.gid = uid if row.name in owned else 0
            if row.isreg():
                with path.open("rb") as content:
                    tar.addfile(row, content)
            else:
                tar.addfile(row)


def compress(tar: Path, layer: Path) -> None:
    """A tar that is there already as a layer."""
    with tar.open("rb") as source, layer.open("wb") as raw, _compressed(raw) as packed:
        shutil.copyfileobj(source, packed)


def _row(path: Path, name: str) -> tarfile.TarInfo:
    row = tarfile.TarInfo(name)
    if path.is_symlink():
        row.type, row.linkname, row.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
    elif path.is_dir():
        row.type, row.mode = tarfile.DIRTYPE, 0o755
    else:
        stat = path.stat()
        row.size, row.mode = stat.st_size, 0o755 if stat.st_mode & 0o100 else 0o644
    return row


def _compressed(raw: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0)


def _tar(stream: IO[bytes] | gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT)


def _digest(content: IO[bytes] | gzip.GzipFile) -> str:
    return hashlib.file_digest(content, "sha256").hexdigest()


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    digest = hashlib.sha256(blob).hexdigest()
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}


def _add_blob(tar: tarfile.TarFile, name: str, blob: bytes) -> None:
    row = tarfile.TarInfo(name)
    row.size = len(blob)
    tar.addfile(row, io.BytesIO(blob))
