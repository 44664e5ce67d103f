"""What is in each image, read from `deploy/image/contents.toml`, and the Dockerfiles written from it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/image"
CONTENTS = FOLDER / "contents.toml"
#: Of every image: the chart's pods and Zero to JupyterHub's run as this user.
UID = 1000


class CannotRelease(Exception):
    """It cannot be made here; the words say what to do."""


@dataclass(frozen=True, kw_only=True)
class Debian:
    """The smallest base, where no other can be pulled."""

    suite: str
    python: str
    packages: list[str]
    without: list[str]


@dataclass(frozen=True, kw_only=True)
class Image:
    """One image."""

    name: str
    dockerfile: str
    repository: str
    base: str
    extras: list[str]
    lock: str
    account: str
    home: str
    command: list[str]
    base_lock: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    #: Folders below the prefix.
    without: list[str] = field(default_factory=list)
    criu: bool = False

    @property
    def wheel(self) -> str:
        """What pip is asked for, behind the path of the wheel."""
        return f"[{','.join(self.extras)}]"


def read(path: Path = CONTENTS) -> tuple[Debian, list[Image]]:
    """Everything in the list."""
    given: dict[str, Any] = tomllib.loads(path.read_text())
    images = [Image(name=name, **facts) for name, facts in given["images"].items()]
    return Debian(**given["debian"]), images


def version() -> str:
    """The one version, from `pyproject.toml`."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def write_dockerfiles() -> list[Path]:
    """Write them all anew; the files."""
    written = []
    for image in read()[1]:
        for name, text in dockerfile(image).items():
            (FOLDER / name).write_text(text)
            written.append(FOLDER / name)
    return written


def dockerfile(image: Image) -> dict[str, str]:
    """The texts of Dockerfile and ignore file."""
    own = image.base_lock is None
    copied = ["dist/*.whl", *([f"deploy/image/{image.lock}"] if own else [])]
    lines = [
        *_head(image),
        f"ARG BASE={image.base}",
        "FROM ${BASE}",
        "USER root",
        f"COPY {' '.join(copied)} /tmp/gpucommons/",
        *(_all_packages(image) if own else _beside_the_base(image)),
        *(_criu() if image.criu else []),
        *(f"ENV {name}={value}" for name, value in image.environment.items()),
        f"USER {UID}",
    ]
    if own:
        command = ", ".join(f'"{word}"' for word in image.command)
        lines += [f"WORKDIR {image.home}", f"CMD [{command}]"]
    ignore = ["*", *(f"!{one}" for one in copied)]
    return {
        image.dockerfile: "\n".join(lines) + "\n",
        f"{image.dockerfile}.dockerignore": "\n".join(ignore) + "\n",
    }


def _head(image: Image) -> list[str]:
    return [
        "# Written from contents.toml by `python -m deploy.release dockerfiles`: change it there.",
        "# In the repository's root, after `make dist` (or `make setup dist` in a new checkout):",
        f"#   docker build -f deploy/image/{image.dockerfile} -t REGISTRY/{image.repository}:{version()} .",
        "# The wheel holds the built panel and the library that keeps programs to their slice, for any",
        "# glibc of the last ten years: no image needs Node or a compiler.",
    ]


def _all_packages(image: Image) -> list[str]:
    left_out = " ".join(f"/usr/local/{one}" for one in image.without)
    return [
        f"RUN pip install --no-cache-dir --no-deps --require-hashes -r /tmp/gpucommons/{image.lock} \\",
        "    && pip install --no-cache-dir --no-deps /tmp/gpucommons/*.whl \\",
        "    && find /usr/local/lib -type d -name tests -prune -exec rm -rf {} + \\",
        f"    && rm -rf /tmp/gpucommons {left_out} \\",
        f"    && useradd --uid {UID} --user-group --home-dir {image.home} --create-home {image.account}",
    ]


def _beside_the_base(image: Image) -> list[str]:
    return [
        "# What the base has stays as it is: a release of it is tried with its own pins.",
        "RUN pip list --format=freeze > /tmp/base.txt \\",
        "    && pip install --no-cache-dir --constraint /tmp/base.txt"
        f' "$(ls /tmp/gpucommons/*.whl){image.wheel}" \\',
        "    && rm -rf /tmp/gpucommons /tmp/base.txt",
    ]


def _criu() -> list[str]:
    return [
        "# With CRIU, 29 MB, for the chart's hibernation.enabled: --build-arg CRIU=yes",
        "ARG CRIU=no",
        'RUN if [ "$CRIU" = yes ]; then gpucommons hibernation setup --folder /opt/gpucommons/criu \\',
        "    && chmod -R go=u-w /opt/gpucommons; fi",
    ]
