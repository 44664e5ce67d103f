"""Play the tour of a real release: ``python -m benchmarks.tour_z2jh --z2jh CHECKOUT [--json FILE]``.

CHECKOUT is one of Zero to JupyterHub's repository (or `Z2JH` in the environment). Needs root, the
programs of `make setup-kubernetes`, and `make images`. Exit code 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.tour.playing import played
from benchmarks.tour.timeline import Timeline, TourFailedError, check
from benchmarks.tour_kubernetes import acts as jobs
from benchmarks.tour_z2jh import acts, browsing
from benchmarks.tour_z2jh.restoring import restored
from benchmarks.tour_z2jh.site import Site
from benchmarks.tour_z2jh.values import SYSTEM, idle_soon
from deploy.release.contents import ROOT, read, version
from gpucommons.scheduler.errors import SchedulerError
from tests.kubernetes.cluster import control_plane
from tests.kubernetes.node import real_node
from tests.kubernetes.toolchain import toolchain

PROGRAMS = [*control_plane.PROGRAMS, *real_node.PROGRAMS, "helm", "kubectl"]
#: What has not been played, and why.
NOT_PLAYED = {
    "submit_in_browser": "the job is submitted as the panel's server does it, not by a click",
}


def play(line: Timeline, site: Site) -> dict[str, object]:
    """All acts."""
    install_s = acts.install(line, site)
    not_ok = acts.examine(line, site)
    alice, opened = browsing.open_notebook(line, site)
    jobs.look_at_slice(line, alice)
    long = acts.long_job(line, site, alice)
    unchanged_s = acts.unchanged(line, site)
    upgraded = acts.under_work(line, site, "upgrade of our chart", lambda: _upgrade(site))
    rolled = acts.under_work(line, site, "rollback", lambda: _roll_back(site))
    hub_lost, _ = acts.under_work(line, site, "upgrade of theirs", lambda: _upgrade_hub(site))
    uninstall_lost = acts.take_out(line, site)
    acts.put_back(line, site, alice, long)
    restore_lost = restored(line, site, alice, long)
    claimed = _preempted(line, site, alice, long)
    site.install_ours(**idle_soon())
    site.await_ours()
    return {
        "install_s": install_s,
        "doctor_not_ok": not_ok,
        **opened,
        "unchanged_pause_s": unchanged_s,
        "upgrade_lost": upgraded[0],
        "upgrade_pause_s": upgraded[1],
        "rollback_lost": rolled[0],
        "rollback_pause_s": rolled[1],
        "hub_upgrade_lost": hub_lost,
        "uninstall_lost": uninstall_lost,
        "restore_lost": restore_lost,
        **claimed,
        "culled_pod_gone_s": acts.culled(line, site, alice),
        **dict.fromkeys(NOT_PLAYED),
        "not_played": NOT_PLAYED,
    }


def _preempted(line: Timeline, site: Site, alice: acts.Person, long: str) -> dict[str, object]:
    """A job on both nodes gives way, goes on from its last step, and ends as one left alone."""
    with acts.SchedulerClient(site.api_url, token=alice.token) as scheduler:
        scheduler.send(acts.calls.cancel(long))
    job, _ = jobs.submit(line, site, alice)
    claim_s = jobs.claim(line, site, job, alice)
    equal = jobs.finish(line, site, alice, job)
    check(equal, "the final numbers differ")
    return {
        "claim_to_running_s": claim_s,
        "final_numbers_equal": equal,
        "doubled_jobs": jobs.doubled(site, alice, job),
    }


def _upgrade(site: Site) -> None:
    site.install_ours(scheduler={"submitsPerHour": 2000})
    site.await_ours()


def _roll_back(site: Site) -> None:
    site.helm("rollback", "gpucommons", "1", "-n", SYSTEM)
    site.await_ours()


def _upgrade_hub(site: Site) -> None:
    site.install_hub(debug={"enabled": True})
    site.await_hub()


def main() -> int:
    """Parse the command line and play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument(
        "--z2jh", type=Path, default=os.environ.get("Z2JH") or None, help="a checkout"
    )
    parser.add_argument("--images", type=Path, default=ROOT / "dist/images")
    given = parser.parse_args()
    wanting = _wanting(given)
    if wanting:
        sys.stderr.write(f"tour: {wanting}\n")
        return 1
    found = played(lambda: _tour(Timeline(), given), given.json, (TourFailedError, SchedulerError))
    return 1 if found is None else 0


def _tour(line: Timeline, given: argparse.Namespace) -> dict[str, object]:
    began = time.monotonic()
    with Site(given.z2jh, given.images) as site:
        line.row("", f"two nodes with all images: {time.monotonic() - began:.1f} s")
        return play(line, site) | {"tour_s": round(time.monotonic() - began, 1)}


def _wanting(given: argparse.Namespace) -> str | None:
    """What is not there, with what to do."""
    absent = toolchain.missing(PROGRAMS)
    if absent or os.geteuid() != 0:
        return f"real nodes need root and {toolchain.HOW_TO_GET}: {absent}"
    if given.z2jh is None or not (given.z2jh / "jupyterhub/Chart.yaml").exists():
        return "--z2jh (or Z2JH) must name a checkout of Zero to JupyterHub's repository"
    archives = [given.images / f"{one.repository}-{version()}.oci.tar" for one in read()[1]]
    missing = [one.name for one in archives if not one.exists()]
    return f"{', '.join(missing)} missing in {given.images}: run `make images`" if missing else None


if __name__ == "__main__":
    sys.exit(main())
