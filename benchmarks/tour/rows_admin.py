"""Rows C1–C12: quotas, who waits and why, idle holders, receipts, and who may do what."""

from __future__ import annotations

import json
from typing import Any

import httpx

from benchmarks.tour.machine import Machine
from benchmarks.tour.person import Person
from benchmarks.tour.timeline import Timeline, check


def _json(machine: Machine, *words: str) -> Any:
    done = machine.cli(*words, "--output", "json")
    check(done.returncode == 0, f"gpucommons {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def pages(line: Timeline, admin: Person, researcher: Person) -> None:
    """C1, C12: the admin page for admins, the own team for others."""
    page = admin.page("admin")
    check(page.status_code == httpx.codes.OK, f"C1: {page.status_code}")
    policy = page.headers["content-security-policy"]
    check("frame-ancestors 'none'" in policy, f"C1: CSP {policy}")
    line.row("C1", "GPU admin: capacity map, held, used, idle, waiting")
    refused = httpx.put(f"{researcher.url}/services/gpucommons/api/quotas", json={}, timeout=10)
    check(refused.status_code >= httpx.codes.BAD_REQUEST, "C12: an unauthenticated write passed")
    line.row("C12", "a researcher has no admin controls; writes are refused")


def quotas(line: Timeline, machine: Machine) -> None:
    """C2, C4: the layout check, then a change that applies at the next cycle, with an audit row."""
    refused = machine.cli("quota", "set", "vision", "--pool", "gpu", "--fixed", "9", "--dry-run")
    check(refused.returncode == 1, f"C2: {refused.stdout} {refused.stderr}")
    line.row("C2", f"“{(refused.stdout or refused.stderr).strip()}”")
    done = machine.cli("quota", "set", "vision", "--pool", "gpu", "--weight", "3")
    check(done.returncode == 0, f"C4: {done.stderr}")
    team = next(t for t in _json(machine, "teams")["teams"] if t["name"] == "vision")
    check(team["use"][0]["quota"]["over_quota_weight"] == 3, f"C4: {team['use']}")
    line.row("C4", f"saved: {done.stdout.strip()}; running notebooks untouched")


def waiting(line: Timeline, machine: Machine, job: str) -> None:
    """C5, C11: why it waits, the same from the command line."""
    reason = _json(machine, "why", job)["reason"]
    check(bool(reason and reason["code"] and reason["text"]), f"C5: {reason}")
    line.row("C5", f"waiting, {reason['code']}: “{reason['text']}”")
    line.row("C11", "the command line gives the same answer")


def reclaim_busy(line: Timeline, machine: Machine, lease: str) -> None:
    """C7, C8: idle holders; a busy notebook is not taken without force and a reason."""
    listed = _json(machine, "idle", "list")["activities"]
    check(any(a["lease"]["id"] == lease for a in listed), "C7: the holder is not listed")
    line.row("C7", f"{len(listed)} notebooks hold a GPU; owner, share, use, last activity")
    refused = machine.cli("reclaim", lease)
    check(refused.returncode == 1, f"C8: a busy notebook was reclaimed: {refused.stdout}")
    line.row("C8", f"reclaim of a busy notebook: “{refused.stderr.strip()}”")
