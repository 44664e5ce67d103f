"""Everything of one release in one folder, with checksums: what `make release` leaves."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

import yaml

from deploy.release.archive import damage
from deploy.release.contents import ROOT, CannotRelease, read, version
from deploy.release.images import the_wheel

CHART = ROOT / "deploy/helm/gpucommons"
SUMS = "SHA256SUMS"
_CHANGES = re.compile(
    r"(?ms)^## \[?(?P<title>[^\]\n]+?)\]?(?: [-–][^\n]*)?\n(?P<text>.*?)(?=^## |\Z)"
)


def write(folder: Path) -> list[Path]:
    """Check that nothing is missing, add the chart, notes and checksums; all files."""
    wheel = the_wheel(folder)
    source = folder / f"gpucommons-{version()}.tar.gz"
    archives = [folder / f"images/{one.repository}-{version()}.oci.tar" for one in read()[1]]
    missing = [str(one) for one in (source, *archives) if not one.exists()]
    if missing:
        message = f"{', '.join(missing)} missing: run `make release`, which makes all."
        raise CannotRelease(message)
    for one in archives:
        if why := damage(one):
            message = f"{one} is not whole: {why}. Remove it and run `make images`."
            raise CannotRelease(message)
    chart, notes = _package_chart(folder), folder / f"CHANGES-{version()}.md"
    notes.write_text(changes((ROOT / "CHANGELOG.md").read_text(), version()))
    beside = sorted(p for p in (folder / "images").iterdir() if p.suffix == ".json")
    files = [wheel, source, chart, notes, *archives, *beside]
    (folder / SUMS).write_text(checksums(folder, files))
    return [*files, folder / SUMS]


def changes(changelog: str, wanted: str) -> str:
    """The changelog's section of a version; what is not released yet, before it has one."""
    sections = {found["title"]: found["text"].strip() for found in _CHANGES.finditer(changelog)}
    for title in (wanted, "Unreleased"):
        if sections.get(title):
            return f"# GPU Commons {wanted}\n\n{sections[title]}\n"
    message = f"CHANGELOG.md has a section neither for {wanted} nor for what is unreleased."
    raise CannotRelease(message)


def checksums(folder: Path, files: list[Path]) -> str:
    """As `sha256sum --check` reads them, in the folder."""
    rows = []
    for path in files:
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        rows.append(f"{digest}  {path.relative_to(folder)}\n")
    return "".join(rows)


def _package_chart(folder: Path) -> Path:
    """Helm's own package; the version comes from the one place, whatever the chart says."""
    from tests.kubernetes.toolchain import toolchain  # noqa: PLC0415 - Helm is found or built there

    said = yaml.safe_load((CHART / "Chart.yaml").read_text())
    if {said["version"], said["appVersion"]} != {version()}:
        message = f"Chart.yaml says {said['version']} and {said['appVersion']}, pyproject.toml says {version()}."
        raise CannotRelease(message)
    if toolchain.missing(["helm"]):
        message = f"Packing the chart needs Helm: {toolchain.HOW_TO_GET}"
        raise CannotRelease(message)
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(toolchain.find("helm")), "package", str(CHART), "--destination", scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            message = f"Helm cannot pack the chart: {done.stderr.strip()}"
            raise CannotRelease(message)
        (packed,) = Path(scratch).iterdir()
        target = folder / packed.name
        target.write_bytes(packed.read_bytes())
    return target
