"""Row D10: a notebook's pod is deleted, and its kernels wake in a pod on the other node."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmarks.tour.laboratory import Kernel, Panel
from benchmarks.tour.person import Person
from benchmarks.tour.rows_kept import knows_what_it_keeps, load_x_into_a_new_kernel
from benchmarks.tour.timeline import Timeline, check, wait_for
from benchmarks.tour_kubernetes.site import HUB, Site
from gpucommons.gpu.hibernation.containers import RESOURCE

_OFFERED = "offered"
_BACK = "Moved to another node, your 2 kernels are back."


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Figures of the row; None where no CRIU could be shown to the nodes."""

    kernels_moved: int | None = None
    #: From the order to delete the pod until it was gone, its kernels saved.
    moved_end_s: float | None = None
    #: From the next start until both kernels had answered.
    moved_back_s: float | None = None
    #: Both together, less what a fresh pod took until two new kernels had answered.
    moved_extra_s: float | None = None


def deleted_and_moved(line: Timeline, site: Site, alice: Person, *, milli_gpu: int) -> Moved:
    """Alice, who has no server, starts one; its pod is deleted as a drain would, and she starts again."""
    if not site.saves:
        line.row("", "D10 is not played: no CRIU in a folder (make setup-hibernation)")
        return Moved()
    if because := _why_not_saved(site):
        line.row("D10", f"the agent: “{because}”")
        return _variables_moved(line, site, alice, milli_gpu=milli_gpu)
    fresh_s = _fresh(alice, milli_gpu)
    knows_what_it_keeps(alice, "kernels")
    kernels = [Kernel(alice), Kernel(alice)]
    for number, kernel in enumerate(kernels):
        kernel.run(f"import os; x = {number}; data = os.urandom(50 << 20); total = sum(data)")
        kernel.close_tab()

    def both_answer() -> None:
        _start(alice, milli_gpu)
        for number, one in enumerate(kernels):
            kernel = Kernel(alice, one.kernel_id)
            kernel.run(f"assert x == {number} and sum(data) == total")
            kernel.close_tab()

    end_s, back_s = _elsewhere(line, site, alice, both_answer)
    with closing(Panel(alice)) as panel:
        panel.wait("what Lab is told", _tells_both)
    line.row("D10", f"“{_BACK}” Both answer with their variables {back_s:.1f} s after the start")
    return Moved(
        kernels_moved=len(kernels),
        moved_end_s=round(end_s, 2),
        moved_back_s=round(back_s, 2),
        moved_extra_s=round(end_s + back_s - fresh_s, 2),
    )


def _variables_moved(line: Timeline, site: Site, alice: Person, *, milli_gpu: int) -> Moved:
    """The weaker way, where no pod can save its kernels: their variables are there for a press."""
    _start(alice, milli_gpu)
    knows_what_it_keeps(alice, "variables")
    old = Kernel(alice)
    old.run("x = 41")
    old.close_tab()
    end_s, _ = _elsewhere(line, site, alice, lambda: _start(alice, milli_gpu))
    load_x_into_a_new_kernel(alice, old)
    line.row("D10", "its variable is loaded into a new kernel by a press: x is 41")
    return Moved(kernels_moved=0, moved_end_s=round(end_s, 2))


def _elsewhere(
    line: Timeline, site: Site, alice: Person, begin: Callable[[], object]
) -> tuple[float, float]:
    """Alice's pod is deleted, and she begins again on the other node; seconds of its end, of the begin."""
    (pod,) = site.client().list_namespaced_pod(HUB).items
    before = pod.spec.node_name
    site.cordon(before, True)
    try:
        end_s = _seconds(lambda: _delete(site, pod.metadata.name))
        wait_for("the hub's notice of it", lambda: not alice.server(), timeout_s=90)
        back_s = _seconds(begin)
    finally:
        site.cordon(before, False)
    (pod,) = site.client().list_namespaced_pod(HUB).items
    check(pod.spec.node_name != before, f"D10: the next pod is on {before} again")
    line.row(
        "D10", f"pod deleted on {before}, gone after {end_s:.1f} s; next on {pod.spec.node_name}"
    )
    return end_s, back_s


def _why_not_saved(site: Site) -> str:
    """What keeps pods from saving their processes, as the first node's agent found; empty where nothing does."""
    said = [
        wait_for(f"what {node} can save", lambda node=node: _found(site, node), timeout_s=180)
        for node in site.nodes()
    ]
    return next((one for one in said if one != _OFFERED), "")


def _found(site: Site, node: str) -> str | None:
    if site.client().read_node(node).status.allocatable.get(RESOURCE, "0") != "0":
        return _OFFERED
    refusal = re.search(r"cannot save their processes\. (.+)", site.agent_said(node))
    return None if refusal is None else refusal[1]


def _fresh(alice: Person, milli_gpu: int) -> float:
    """A start where nothing is kept: until two new kernels have answered."""
    return _seconds(lambda: _two_answer(alice, milli_gpu))


def _two_answer(alice: Person, milli_gpu: int) -> None:
    _start(alice, milli_gpu)
    for kernel in (Kernel(alice), Kernel(alice)):
        kernel.run("1")
        kernel.close_tab()
        alice.lab("DELETE", f"api/kernels/{kernel.kernel_id}")


def _start(alice: Person, milli_gpu: int) -> None:
    answer = alice.start_server(milli_gpu=milli_gpu, team="vision", pool="gpu")
    check(answer.status_code in (201, 202), f"D10: {answer.status_code} {answer.text}")
    alice.wait_until_ready(timeout_s=180)


def _delete(site: Site, pod: str) -> None:
    site.client().delete_namespaced_pod(pod, HUB)
    wait_for("the pod's end", lambda: not site.client().list_namespaced_pod(HUB).items)


def _seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def _tells_both(message: dict[str, Any]) -> bool:
    return message["type"] == "kernels" and sum(one["moved"] for one in message["woken"]) == 2
