"""What an image is made of, as CycloneDX has it, and what is known against it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from deploy.release.contents import FOLDER, CannotRelease, read, version
from deploy.release.layers import EPOCH
from deploy.release.locks import pins

_FIELD = re.compile(r"(?m)^(Package|Version|Architecture): (\S+)$")


def debian(status: str) -> list[Component]:
    """What dpkg's list says is installed."""
    found = []
    for entry in status.strip().split("\n\n"):
        facts = dict(_FIELD.findall(entry))
        found.append(
            _component(
                facts["Package"],
                facts["Version"],
                PackageURL(
                    "deb",
                    "debian",
                    facts["Package"],
                    facts["Version"],
                    {"arch": facts["Architecture"]},
                ),
            )
        )
    return found


def python(locks: Iterable[Path]) -> list[Component]:
    """The packages of lock files."""
    return [
        _component(name, found, PackageURL("pypi", None, name, found))
        for lock in locks
        for name, found in pins(lock.read_text()).items()
    ]


def ourselves(wheel: Path) -> Component:
    """Our own wheel, with its hash."""
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    component = _component(
        "gpucommons", version(), PackageURL("pypi", None, "gpucommons", version())
    )
    component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=found))
    return component


def write(path: Path, reference: str, digest: str, components: Sequence[Component]) -> None:
    """One document for one image; the same image gives the same document."""
    image = Component(
        name=reference, version=digest, type=ComponentType.CONTAINER, bom_ref=reference
    )
    document = Bom(
        components=components, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{reference}@{digest}")
    )
    document.metadata.component = image
    document.metadata.timestamp = datetime.fromtimestamp(int(EPOCH), UTC)
    document.register_dependency(image, components)
    path.write_text(JsonV1Dot6(document).output_as_string(indent=1) + "\n")


def known_vulnerabilities() -> dict[str, Any]:
    """What the package index knows against our Python packages, and of how many it knows anything."""
    wanted: dict[str, str] = {}
    for image in read()[1]:
        for name in filter(None, (image.lock, image.base_lock)):
            wanted |= {f"{k}=={v}": v for k, v in pins((FOLDER / name).read_text()).items()}
    rows = _audit(sorted(wanted))
    unknown = [one["name"] for one in rows if "skip_reason" in one]
    return {
        "asked": len(rows),
        "answered": len(rows) - len(unknown),
        "found": [one for one in rows if one.get("vulns")],
        "not_answered": unknown,
        "debian": "not asked: Debian's security tracker is no package registry",
    }


def said(known: dict[str, Any]) -> str:
    """In a sentence that claims no more than was asked."""
    if not known["answered"]:
        return (
            f"Vulnerabilities: unknown. The package index answered for none of {known['asked']} packages"
            " (a mirror without advisories). Scan the archives, or their bills, where a scanner is."
        )
    return (
        f"Vulnerabilities: {len(known['found'])} packages with known ones, of the {known['answered']} of"
        f" {known['asked']} Python packages that the index answered for. Debian's were not asked."
    )


def _audit(wanted: Sequence[str]) -> list[dict[str, object]]:
    """pip-audit takes one version of each name: where images differ, they are asked in turn."""
    rows: list[dict[str, object]] = []
    left = list(wanted)
    while left:
        now = {one.partition("==")[0]: one for one in reversed(left)}
        left = [one for one in left if one not in now.values()]
        rows += _ask(sorted(now.values()))
    return rows


def _ask(wanted: Sequence[str]) -> list[dict[str, object]]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(wanted))
        listed.flush()
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip"]
        command += ["-r", listed.name, "-f", "json", "--progress-spinner", "off"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        message = f"pip-audit could not ask: {done.stderr.strip()[-1000:]}"
        raise CannotRelease(message) from None
    return list(answer["dependencies"])


def _component(name: str, found: str, purl: PackageURL) -> Component:
    return Component(
        name=name, version=found, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl)
    )
