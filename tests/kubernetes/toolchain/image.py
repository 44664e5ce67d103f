"""Container images without a registry: an OCI archive written from this machine's own files."""

import hashlib
import importlib.util
import io
import json
import py_compile
import re
import subprocess
import tarfile
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
BLOCK = 1 << 20


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


@dataclass(frozen=True, kw_only=True)
class Written:
    """A layer as an image names it; without a path it is known to the importer already."""

    digest: str
    size: int
    path: Path | None = None

    @classmethod
    def of(cls, path: Path) -> "Written":
        """A layer that was just written."""
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return cls(digest=digest, size=path.stat().st_size, path=path)


def write_archive(
    archive: Path,
    reference: str,
    layers: Sequence[Written],
    *,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """An OCI archive of one image that runs as user 1000, for `ctr images import`."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": "1000:1000",
            "Entrypoint": list(command),
            "Env": [f"{name}={value}" for name, value in (environment or {}).items()],
            "WorkingDir": "/home/user",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
    }
    config_blob = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config_blob),
        "layers": [
            {"mediaType": LAYER, "digest": f"sha256:{layer.digest}", "size": layer.size}
            for layer in layers
        ],
    }
    manifest_blob = json.dumps(manifest).encode()
    top = _descriptor(MANIFEST, manifest_blob) | {
        "annotations": {
            "io.containerd.image.name": reference,
            "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
        }
    }
    index = {"schemaVersion": 2, "manifests": [top]}
    with tarfile.open(archive, "w") as tar:
        _add_blob(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add_blob(tar, "index.json", json.dumps(index).encode())
        for blob in (config_blob, manifest_blob):
            _add_blob(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for layer in layers:
            if layer.path is not None:
                _add_file(tar, f"blobs/sha256/{layer.digest}", layer.path)


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


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    digest = hashlib.sha256(blob).hexdigest()
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}


def _add_blob(tar: tarfile.TarFile, name: str, blob: bytes) -> None:
    row = tarfile.TarInfo(name)
    row.size = len(blob)
    tar.addfile(row, io.BytesIO(blob))
