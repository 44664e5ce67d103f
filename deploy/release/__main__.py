"""``python -m deploy.release images|artefacts|dockerfiles|lock``: what Make calls.

Run it in the repository's root, with the environment of `make setup`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from deploy.release import artefacts, bill, contents, images, locks

DIST = contents.ROOT / "dist"


def main() -> int:
    """Parse the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["images", "artefacts", "dockerfiles", "lock"])
    parser.add_argument("--out", type=Path, default=DIST, help="folder with the wheel, and for all")
    parser.add_argument("--only", action="append", help="an image; may be repeated")
    parser.add_argument("--no-audit", action="store_true", help="ask no index for vulnerabilities")
    arguments = parser.parse_args()
    acts = {
        "images": _images,
        "artefacts": lambda given: artefacts.write(given.out),
        "dockerfiles": lambda _: contents.write_dockerfiles(),
        "lock": lambda _: locks.write_locks(),
    }
    try:
        for path in acts[arguments.what](arguments):
            print(path)
    except contents.CannotRelease as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _images(arguments: argparse.Namespace) -> list[Path]:
    began = time.monotonic()
    folder = arguments.out / "images"
    only = set(arguments.only) if arguments.only else None
    built = images.build(images.the_wheel(arguments.out), folder, names=only)
    for one in built:
        print(
            f"{one.reference}: {one.compressed / 1e6:.1f} MB compressed ({one.added / 1e6:.1f} MB ours,"
            f" the rest its base), {one.packages} packages, {one.digest}"
        )
    (folder / "images.json").write_text(json.dumps([one.row() for one in built], indent=1) + "\n")
    if not arguments.no_audit:
        known = bill.known_vulnerabilities()
        (folder / "vulnerabilities.json").write_text(json.dumps(known, indent=1) + "\n")
        print(bill.said(known))
    print(f"built in {time.monotonic() - began:.0f} s")
    return [one.archive for one in built]


if __name__ == "__main__":
    sys.exit(main())
