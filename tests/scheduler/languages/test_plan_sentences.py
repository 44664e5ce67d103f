"""What the advisor says is known in every language of the pages, sentence by sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from gpucommons.scheduler.advisor.choice.advise import advise
from gpucommons.scheduler.advisor.choice.question import Advice, Objective, Question, Range
from gpucommons.scheduler.advisor.choice.ranking import beside
from gpucommons.scheduler.advisor.descriptors.huggingface import from_config
from gpucommons.scheduler.advisor.kinds import Pool, shipped
from gpucommons.scheduler.advisor.layout import words
from gpucommons.scheduler.advisor.network import Network, Transformer, Unknown
from gpucommons.scheduler.advisor.recipe import Recipe
from gpucommons.scheduler.languages.answers import told_in
from gpucommons.scheduler.languages.sentences import phrase, translated
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.service.advice.views import script_words

TABLES = shipped()
KIND = TABLES.kinds["A100-40"]
POOL = Pool(
    kind=KIND,
    gpus_per_node=4,
    nodes=4,
    inside=KIND.link,
    between=TABLES.links["infiniband-200"],
)
LAYERS = {"heads": 16, "kv_heads": 16, "ffn": 8192, "vocabulary": 50_000}
NETWORKS: tuple[Network, ...] = (
    *(Transformer(layers=n, hidden=h, **LAYERS) for n, h in ((12, 512), (24, 2048), (96, 8192))),
    from_config({"model_type": "mamba"}),
    from_config({"model_type": "gpt2"}),
    from_config({}),
    Unknown(why="The trace failed (KeyError).", tried=True),
)


def played() -> Iterator[tuple[Question, Advice]]:
    """Small and huge trainings, with and without a price and a known wait."""
    for network, objective, price, wait_s, batch in product(
        NETWORKS, Objective, (None, 1.2), (None, Range(0.0, 60.0, 600.0)), (8, 256)
    ):
        ask = Question(
            network=network,
            recipe=Recipe(batch=batch, sequence=2048),
            pool=POOL,
            steps=1000,
            objective=objective,
            deadline_s=3600.0,
        )
        ask = replace(
            ask,
            terms=replace(ask.terms, price=price),
            wait_s=lambda _gpus, known=wait_s: known,
        )
        yield ask, advise(ask)


def said(found: Advice) -> Iterator[str]:
    """All that one answer says."""
    plans = (*found.plans, *found.others)
    yield found.declined
    for plan in plans:
        yield plan.why
        yield f"{beside(plan, plans[0], priced=False)}; limited by {plan.bottleneck}."
        yield words(plan.layout)
        yield from script_words(plan.layout, "torch")


def test_all_that_is_said_of_plans_is_said_in_german() -> None:
    texts = {text for _, found in played() for text in said(found)} - {""}
    assert len(texts) > 100
    with spoken("de"):
        left = {one for one in texts if (translated(one) or phrase(one)) == one}
    assert {one for one in left if not one.startswith(("DDP ×", "FSDP ×", "ZeRO-1 ×"))} == {
        "DistributedDataParallel"
    }


@pytest.mark.parametrize(
    ("text", "german"),
    [
        (
            "Is likely done 12 % later than the first, 5 % more money; limited by data links.",
            "Ist voraussichtlich 12 % später fertig als der erste, für 5 % mehr Geld; begrenzt durch"
            " Verbindungen der Daten-Teile.",
        ),
        (
            "What layers model type 'mamba' has is not known here. Can't say yet. Try 2 minutes on one GPU?",
            "Welche Schichten der Modelltyp „mamba“ hat, ist hier nicht bekannt. Dazu lässt sich noch"
            " nichts sagen. 2 Minuten auf einer GPU probieren?",
        ),
        (
            "Plain, 4 GPUs of train (DDP × 4, accumulation × 2): fits: 31.0 of 38.8 GiB (weights 12.1,"
            " loss head 2.0); 9.1–10.4 k tokens/s.",
            "Ohne Plan, 4 GPUs von train (DDP × 4, Akkumulation × 2): passt: 31.0 von 38.8 GiB (Gewichte"
            " 12.1, Verlustkopf 2.0); 9.1–10.4 k tokens/s.",
        ),
    ],
)
def test_a_plans_sentence_is_said_in_german(text: str, german: str) -> None:
    with spoken("de"):
        assert translated(text) == german


def test_a_view_is_told_in_its_readers_language_and_nothing_else_of_it_changes() -> None:
    view = {
        "declined": "There is no GPU to plan for.",
        "plans": [
            {
                "layout": "one GPU",
                "pool": "none",
                "script": ["FSDP with FULL_SHARD", "none of ours"],
            }
        ],
        "request": {"name": "Paused."},
        "reason": {"text": "Paused.", "unblock": None, "code": "share"},
    }
    found = json.loads(told_in("de", json.dumps(view)))
    assert found["declined"] == "Es gibt keine GPU, für die sich planen ließe."
    assert found["plans"] == [
        {"layout": "eine GPU", "pool": "none", "script": ["FSDP mit FULL_SHARD", "none of ours"]}
    ]
    assert found["request"] == {"name": "Paused."}
    assert found["reason"] == {"text": "Pausiert.", "unblock": None, "code": "share"}
    assert told_in("en", "as it is") == "as it is"
