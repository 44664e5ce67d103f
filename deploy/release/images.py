"""Builds the images as OCI archives, each with its bill of materials."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.release import bill
from deploy.release.archive import Run, Written, write_archive
from deploy.release.contents import FOLDER, ROOT, CannotRelease, Image, read, version
from deploy.release.layers import Workshop

#: Archives name images as of this machine: whoever has a registry copies them there.
PREFIX = "localhost"
CACHE = ROOT / "build/images"
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True)
class Built:
    """One archive."""

    name: str
    reference: str
    archive: Path
    digest: str
    #: What a node has to load, in bytes.
    compressed: int
    #: Of that, what our Dockerfile adds to its base.
    added: int
    packages: int

    def row(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self) | {"archive": self.archive.name}


def the_wheel(folder: Path) -> Path:
    """The one wheel of this version in a folder."""
    found = sorted(folder.glob(f"gpucommons-{version()}-*.whl"))
    if len(found) != 1:
        message = f"{folder} holds {len(found)} wheels of version {version()}: run `make dist`."
        raise CannotRelease(message)
    return found[0]


def build(wheel: Path, out: Path, *, names: set[str] | None = None) -> list[Built]:
    """Build all images, or those of these names."""
    debian, images = read()
    out.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(CACHE, debian)
    return [
        _build(workshop, image, wheel, out)
        for image in images
        if names is None or image.name in names
    ]


def _build(workshop: Workshop, image: Image, wheel: Path, out: Path) -> Built:
    locks = [FOLDER / image.lock]
    base = [workshop.debian, workshop.system()]
    if image.base_lock is not None:
        locks.insert(0, FOLDER / image.base_lock)
        base.append(workshop.packages(f"{image.name}-base", locks[0], image))
    ours = [
        workshop.packages(f"{image.name}-packages", FOLDER / image.lock, image),
        workshop.wheel(image, wheel),
    ]
    reference = f"{PREFIX}/{image.repository}:{version()}"
    archive = out / f"{image.repository}-{version()}.oci.tar"
    digest = write_archive(archive, reference, base + ours, _run(image))
    components = bill.debian(workshop.status()) + bill.python(locks) + [bill.ourselves(wheel)]
    bill.write(out / f"{image.repository}-{version()}.cdx.json", reference, digest, components)
    return Built(
        name=image.name,
        reference=reference,
        archive=archive,
        digest=digest,
        compressed=_size(base + ours),
        added=_size(ours),
        packages=len(components),
    )


def _run(image: Image) -> Run:
    return Run(
        workdir=image.home,
        # Reaps what servers leave behind, as in Zero to JupyterHub's own images.
        entrypoint=["tini", "--"],
        command=image.command,
        environment={"PATH": _PATH, "HOME": image.home, "LANG": "C.UTF-8"} | image.environment,
        labels={
            "org.opencontainers.image.title": f"GPU Commons: {image.name}",
            "org.opencontainers.image.version": version(),
            "org.opencontainers.image.licenses": "BSD-3-Clause",
        },
    )


def _size(layers: list[Written]) -> int:
    return sum(one.size for one in layers)
