"""How long a job that nobody has submitted would wait: by the quote if it starts now, else by the forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.advisor.choice.question import Range
from gpucommons.scheduler.core.model.reason import ReasonClass
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, Spec, State, Workload
from gpucommons.scheduler.core.whatif import quotes
from gpucommons.scheduler.core.whatif.next_shares import HYPOTHETICAL
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.why import LARGE

#: A pool and a number of GPUs.
Size = tuple[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """What is said of one size."""

    #: None where it is not known.
    range_s: Range | None
    text: str
    note: str = ""
    hold_class: str = ""


NOT_KNOWN = Wait(range_s=None, text="not known")


def quoted(service: Service, specs: Mapping[Size, Spec]) -> dict[Size, Wait | None]:
    """What the quote of each size says; None where it would wait, so that only the forecast can.

    Where a cycle takes long, the forecast's own thread plays it.
    """
    cluster, now_ms = service.loop.cluster, service.now_ms()
    if len(cluster.nodes) + len(cluster.workloads) >= LARGE:
        return dict.fromkeys(specs)
    found: dict[Size, Wait | None] = {}
    for size, spec in specs.items():
        try:
            quote = quotes.quote(cluster, spec, now_ms, service.why_not)
        except SchedulerError as error:
            found[size] = replace(NOT_KNOWN, note=str(error))
            continue
        none = Wait(range_s=Range(0.0, 0.0, 0.0), text="none", hold_class=quote.hold_class)
        found[size] = none if quote.starts_now else _kept_by_a_rule(quote)
    return found


def _kept_by_a_rule(quote: quotes.Quoted) -> Wait | None:
    """No forecast knows when a rule or a budget lets a job start: the rule itself is said."""
    reason = quote.reason
    if reason is None or reason.code is not ReasonClass.POLICY:
        return None
    return replace(NOT_KNOWN, note=reason.text, hold_class=quote.hold_class)


def forecast(service: Service, size: Size, spec: Spec) -> Wait | None:
    """What the queue's forecast says; None as long as that is being worked out."""
    cluster = service.loop.cluster
    now_ms = cluster.now_ms
    asked = Workload(
        workload_id=HYPOTHETICAL,
        spec=spec,
        state=State.QUEUED,
        submitted_ms=now_ms,
        since_ms=now_ms,
    )
    (role,) = spec.roles
    # Questions that differ by a little are one: what is asked first, of all of them, is answered.
    needs = (
        f"{_rounded(role.cpu_milli)}/{_rounded(role.memory_mib)}/{spec.priority}/{spec.over_quota}"
    )
    key = f"{spec.team}/{spec.owner}/{size[0]}/{size[1]}/{needs}"
    said = service.forecasts.if_submitted(key, asked)
    if said is None:
        return None
    hold_class = _surely_borrowed(service, size, spec)
    window = said.window
    if window is None:
        return replace(NOT_KNOWN, note=said.text, hold_class=hold_class)
    middle_ms = min(max(window.median_ms, window.from_ms), window.to_ms)
    low, middle, high = (ms / 1000 for ms in (window.from_ms, middle_ms, window.to_ms))
    return Wait(
        range_s=Range(low, middle, high), text=said.span, note=said.note, hold_class=hold_class
    )


def _surely_borrowed(service: Service, size: Size, spec: Spec) -> str:
    """What is larger than its team's whole guarantee borrows, whenever it starts; else nobody knows yet."""
    pool, gpus = PoolName(size[0]), size[1]
    team = service.loop.cluster.teams.get(spec.team)
    quota = None if team is None else team.quotas.get(pool)
    guaranteed = 0 if quota is None else quota.guaranteed_milli_gpu
    return HoldClass.OVER_QUOTA.value if gpus * WHOLE_MILLI_GPU > guaranteed else ""


def _rounded(amount: int) -> int:
    """The next power of two."""
    return 1 << max(0, amount - 1).bit_length()
