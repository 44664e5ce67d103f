"""What would happen to a job if it were submitted now: where it starts, what it costs, how it would be stopped."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.amount_words import duration
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.hibernating import (
    hindrances_before_start,
    most_mib_before_start,
)
from gpucommons.scheduler.core.model.demand import may_have, milli_gpu, must_have, on_cpu_only
from gpucommons.scheduler.core.model.types import Spec
from gpucommons.scheduler.core.whatif import quotes
from gpucommons.scheduler.intake.gpu_memory import in_words
from gpucommons.scheduler.money import money_words
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization, costs
from gpucommons.scheduler.service.jobs.environments import script_reader, warnings
from gpucommons.scheduler.service.jobs.jobs import check_labels, checked_spec
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.drills import drill_text
from gpucommons.scheduler.service.views.jobs import reason_view
from gpucommons.scheduler.service.views.where_it_runs import AWAY, any_simulated, may_run_away


def quote_job(service: Service, principal: Principal, request: models.JobRequest) -> models.Quote:
    """Say what would happen to this job if it were submitted now; nothing is stored."""
    authorization.jobs.quote_job(principal, request.user)
    check_labels(principal, request)
    read = script_reader(service, request)
    spec = checked_spec(service, principal, request, read)
    quoted = quotes.quote(service.loop.cluster, spec, service.now_ms(), service.why_not)
    also = (in_words(spec, service.loop.cluster), _costs(service, spec))
    return models.Quote(
        hold_class=quoted.hold_class,
        text=" ".join(filter(None, (quoted.text, *also))),
        quota_text=" ".join(filter(None, (quoted.quota_text, *also))),
        stop_text=_stop_text(service, spec),
        drill_text=drill_text(spec, quoted.hold_class, service.loop.cluster),
        starts_now=quoted.starts_now,
        reason=reason_view(quoted.reason),
        guaranteed_milli_gpu=quoted.guaranteed_milli_gpu,
        guaranteed_used_milli_gpu=quoted.guaranteed_used_milli_gpu,
        free_milli_gpu=quoted.free_milli_gpu,
        simulated=not on_cpu_only(spec) and any_simulated(service.loop.cluster, spec.pools),
        warnings=warnings(service, principal, request, spec.environment, read),
    )


def _costs(service: Service, spec: Spec) -> str:
    """What it costs per hour, and what the time that it may run costs at most; "" where one of its
    pools has no price.

    An elastic job may have its fewest or its most workers. When it runs is not known, so the dearest
    of today's and all later prices bounds it. Starts and stops hold GPUs beyond that time.
    """
    pools = [
        service.loop.cluster.pools[name]
        for name in spec.pools
        if name in service.loop.cluster.pools
    ]
    now_ms, fewest = service.now_ms(), milli_gpu(must_have(spec))
    most = fewest + milli_gpu(may_have(spec))
    found = [pool.price_at(now_ms) for pool in pools]
    known = [price for price in found if price is not None]
    if not most or not known or None in found:
        return ""
    currency, dearest = (
        costs.currency_of(pools),
        max(costs.dearest(pool, now_ms) for pool in pools),
    )
    low = money_words(min(known) * fewest // 1000, currency)
    high = money_words(max(known) * most // 1000, currency)
    hourly = high if low == high else f"{low} to {high}"
    said = f"It costs {hourly} per hour{' now' if dearest > max(known) else ''}"
    if spec.max_run_ms is None:
        return f"{said}."
    bound = money_words(dearest * most * spec.max_run_ms // (1000 * 3_600_000), currency)
    return f"{said}, at most {bound} for the {duration(spec.max_run_ms // 1000)} that it may run."


def _stop_text(service: Service, spec: Spec) -> str:
    cluster = service.loop.cluster
    return words.before_start(
        hindrances_before_start(spec, cluster.pools, cluster.nodes),
        most_mib=most_mib_before_start(spec, cluster.pools, cluster.nodes),
        files_are_kept=AWAY in service.files or not may_run_away(cluster, spec),
    )
