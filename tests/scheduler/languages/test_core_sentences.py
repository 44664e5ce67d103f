"""What the core says is known in every language of the pages, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.intents import Cancel, Pause
from gpucommons.scheduler.core.model.price_and_budget import Budget, BudgetPolicy
from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.types import Kind, TeamName, UserName
from gpucommons.scheduler.core.whatif.counterfactuals import ways
from gpucommons.scheduler.languages.sentences import sentence, translated
from gpucommons.scheduler.languages.texts import spoken

_SIZES = (125, 250, 500, 1000, 2000, 3000, 4000, 8000)
_SPENT = "vision has used up its November budget of 1,200.00 EUR."


def said(world: World) -> Iterator[str]:
    """All that the core tells those who wait, with what would help each."""
    for one in world.cluster.workloads.values():
        if one.reason is not None:
            yield one.reason.text
            yield from filter(None, [one.reason.unblock])
            found = ways(world.cluster, one.workload_id, world.now, every_size)
            yield from (way.text for way in found)


def played(seed: int) -> World:
    """A small cluster in which much is asked for."""
    drawn = random.Random(seed)  # noqa: S311 - nothing secret
    nodes = [
        a_node(
            f"n{number}",
            drawn.choice((1, 2, 4)),
            state=drawn.choice((NodeState.READY,) * 4 + tuple(NodeState)),
        )
        for number in range(drawn.choice((1, 2, 3)))
    ]
    backed = any(node.state is NodeState.READY for node in nodes)
    teams = [
        a_team(
            fixed_milli_gpu=drawn.choice((0, 250, 500)) if backed else 0,
            guaranteed_milli_gpu=drawn.choice((0, 250, 500)) if backed else 0,
            limit_milli_gpu=drawn.choice((None, None, 1000, 2000)),
            over_quota_weight=drawn.choice((0, 1, 2)),
        ),
        a_team("nlp", over_quota_weight=1),
    ]
    world = World(*nodes, teams=teams, pools=[a_pool()])
    if drawn.random() < 0.3:
        rule = drawn.choice((BudgetPolicy.NO_BORROW, BudgetPolicy.NO_NEW_JOBS))
        vision = world.cluster.teams[TeamName("vision")]
        spent = replace(vision, budget=Budget(money_micro=1, at_full=rule), budget_spent=_SPENT)
        world.cluster = replace(world.cluster, teams={**world.cluster.teams, vision.name: spent})
    ids = []
    for number in range(drawn.randrange(3, 12)):
        size = drawn.choice(_SIZES)
        if drawn.random() < 0.3:
            verdict = world.try_submit(a_notebook(f"user{number}", size))
        else:
            spec = a_job(
                f"job-{number}",
                size,
                workers=drawn.choice((1, 1, 1, 2)) if size >= 1000 else 1,
                cpu_milli=drawn.choice((1000, 1000, 16_000, 64_000)),
                team=TeamName(drawn.choice(("vision", "vision", "nlp"))),
                owner=UserName(drawn.choice(("ann", "bob"))),
                priority=drawn.choice(("low", "normal", "high")),
                over_quota=drawn.random() < 0.8,
                kind=drawn.choice((Kind.TRAINING,) * 5 + (Kind.RETRAIN,)),
            )
            verdict = world.try_submit(spec)
        if verdict.error is None and verdict.workload_id is not None:
            ids.append(verdict.workload_id)
        world.wait(drawn.choice((1000, 60_000)))
    for one in drawn.sample(ids, len(ids) // 4):
        world.ask(drawn.choice((Cancel, Pause))(workload_id=one))
        world.wait(1000)
    return world


@pytest.mark.parametrize(
    ("text", "german"),
    [
        (
            "Needs 2 workers at once, each with 4 GPUs on one node; 3 GPUs are free, and 2 more are kept:"
            " 1 for a job of nlp, until the rest of its place is free, 1 for guarantees.",
            "Braucht 2 Worker zugleich, jeden mit 4 GPUs auf einem Knoten; 3 GPUs sind frei, und 2 weitere"
            " werden freigehalten: 1 für einen Job von nlp, bis der Rest seines Platzes frei ist, 1 für"
            " Garantien.",
        ),
        (
            "Next in line: 2 GPUs are being cleared, digits-7, a notebook, 3 borrowing jobs of other teams"
            " end there first (speech-4, speech-5).",
            "Als Nächstes an der Reihe: 2 GPUs werden geräumt, vorher enden dort digits-7, ein Notebook,"
            " 3 leihende Jobs anderer Teams (speech-4, speech-5).",
        ),
        (
            "Needs 8 GPUs on one node, for which no node is there yet. Pool cloud may get 1 more node; it"
            " takes work about 4 min after it is asked for.",
            "Braucht 8 GPUs auf einem Knoten; dafür ist noch kein Knoten da. Pool cloud kann noch 1 Knoten"
            " bekommen; er nimmt etwa 4 min nach der Anforderung Arbeit an.",
        ),
        (
            "vision has used 87 % of its November budget: 0.044 of 0.05 GPU-hours.",
            "vision hat 87 % des Budgets für November verbraucht: 0,044 von 0,05 GPU-Stunden.",
        ),
        (
            "GPU 2 of n1 is lent: it can be won back, which takes a moment.",
            "GPU 2 von n1 ist verliehen und kann zurückgeholt werden, was einen Augenblick dauert.",
        ),
        (
            "Likely between 5 min and 3 h, few jobs to judge by; in about 40 min if what is idle stays idle;"
            " at the latest in about 2 h, when digits-7's time limit ends.",
            "Voraussichtlich zwischen 5 min und 3 h, wenige Jobs zum Vergleich; in etwa 40 min, wenn untätig"
            " bleibt, was untätig ist; spätestens in etwa 2 h, wenn das Zeitlimit von digits-7 endet.",
        ),
        (
            "Likely 10–25 min (past estimates right 8 of 10).",
            "Voraussichtlich 10–25 min (frühere Schätzungen stimmten 8 von 10 Mal).",
        ),
        (
            "Likely start unknown: nlp's and vision's notebooks hold the GPUs for as long as they are used.",
            "Voraussichtlicher Start unbekannt: Notebooks von nlp und vision halten die GPUs, solange sie"
            " genutzt werden.",
        ),
        ("A full moon is in the way. Paused.", None),
        ("Paused. A full moon is in the way.", None),
        ("Needs moonlight; none is free.", None),
    ],
)
def test_a_sentence_is_said_in_german_or_stays_whole(text: str, german: str | None) -> None:
    assert sentence(text) == text
    with spoken("de"):
        assert translated(text) == german
        assert sentence(text) == (german or text)


@pytest.mark.parametrize("seed", range(40))
def test_all_that_keeps_somebody_waiting_is_said_in_german(seed: int) -> None:
    with spoken("de"):
        left = {text for text in said(played(seed)) if translated(text) is None}
    assert not left
