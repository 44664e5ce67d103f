"""What a release consists of: nothing missing, nothing claimed that was not asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from deploy.release import artefacts, bill
from deploy.release.contents import CannotRelease

STATUS = """\
Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2-1
Description: a shell
 Version: of a description

Package: tini
Architecture: amd64
Version: 0.19
"""
CHANGELOG = """\
# Changelog

## Unreleased

- New.

## [0.2.0] - 2026-12-01

- Older.

## 0.1.0

- Oldest.
"""


@pytest.mark.parametrize(
    ("wanted", "text"), [("0.2.0", "- Older."), ("0.1.0", "- Oldest."), ("0.3.0", "- New.")]
)
def test_a_release_has_its_own_section_of_the_changelog(wanted: str, text: str) -> None:
    assert artefacts.changes(CHANGELOG, wanted) == f"# GPU Commons {wanted}\n\n{text}\n"


def test_a_release_without_a_section_is_refused() -> None:
    with pytest.raises(CannotRelease, match="section"):
        artefacts.changes("# Changelog\n", "0.1.0")


def test_checksums_are_taken_by_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    files = [tmp_path / "wheel", tmp_path / "images/one.tar"]
    for one in files:
        one.write_text(one.name)
    (tmp_path / "SHA256SUMS").write_text(artefacts.checksums(tmp_path, files))

    def checked() -> int:
        command = ["sha256sum", "--check", "--status", "SHA256SUMS"]
        return subprocess.run(command, cwd=tmp_path, check=False).returncode

    assert checked() == 0
    files[1].write_text("half")
    assert checked() != 0


def test_a_release_that_lacks_a_part_is_refused_with_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(CannotRelease, match="make dist"):
        artefacts.write(tmp_path)


def test_a_bill_names_every_package_of_debian_and_python_and_is_the_same_twice(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "lock"
    lock.write_text("httpx==0.28.1 \\\n    --hash=sha256:1\nPyYAML==6\n")
    components = bill.debian(STATUS) + bill.python([lock])
    texts = set()
    for name in ("a", "b"):
        bill.write(tmp_path / name, "localhost/x:1", "sha256:1", components)
        texts.add((tmp_path / name).read_text())
    (text,) = texts
    assert {one["purl"] for one in json.loads(text)["components"]} == {
        "pkg:deb/debian/bash@5.2-1?arch=amd64",
        "pkg:deb/debian/tini@0.19?arch=amd64",
        "pkg:pypi/httpx@0.28.1",
        "pkg:pypi/pyyaml@6",
    }


def test_where_no_index_answers_nothing_is_called_free_of_vulnerabilities() -> None:
    silent = {"asked": 3, "answered": 0, "found": [], "not_answered": ["a", "b", "c"]}
    assert bill.said(silent).startswith("Vulnerabilities: unknown.")
    some = silent | {"answered": 2, "found": [{"name": "a"}]}
    assert "1 packages with known ones, of the 2 of 3" in bill.said(some)
