"""How a job loads its data from its next attempt on, as somebody chose it on its page; never by itself."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.intents import ChooseLoader
from gpucommons.scheduler.core.model.types import Millis, Workload
from gpucommons.scheduler.data_loading import LoaderChoice, loader_in_words

#: So many changes in a row are in the history, then one in each span: who changes it without end fills it
#: with nothing.
IN_A_ROW, SPAN_MS = 12, 10_000


def choose(cycle: CycleState, workload: Workload, action: ChooseLoader, by: str) -> None:
    """Note it. The attempt that runs goes on as it began."""
    before = workload.loader
    chosen = None
    if action.workers is not None:
        chosen = LoaderChoice(
            workers=action.workers, prefetch=action.prefetch, by=by, at_ms=cycle.now_ms
        )
    if in_words(chosen) == in_words(before):
        return
    free_ms = max(workload.loader_told_ms, cycle.now_ms)
    is_told = free_ms < cycle.now_ms + IN_A_ROW * SPAN_MS
    told_ms = Millis(free_ms + SPAN_MS) if is_told else workload.loader_told_ms
    cycle.put(evolve(workload, loader=chosen, loader_told_ms=told_ms))
    if not is_told:
        return
    text = f"{workload.spec.name} loads its data with {in_words(chosen)} from its next attempt on, by {by}."
    data = {"old": in_words(before), "new": in_words(chosen)}
    cycle.tell("loader", text, workload, by=by, data=data)


def in_words(choice: LoaderChoice | None) -> str:
    """As in: it loads its data with these."""
    if choice is None:
        return "what its script says"
    return loader_in_words(choice.workers, choice.prefetch)
