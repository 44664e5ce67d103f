"""The sentences at the sizes of a notebook: the scheduler's English, and what screens make of it."""

from __future__ import annotations

import pytest
from builders import TRAIN, World, a_node, a_notebook, a_team

from gpucommons.scheduler.core.model.types import TeamName, UserName
from gpucommons.scheduler.core.whatif import available_notebook_sizes
from gpucommons.scheduler.languages.texts import spoken
from gpucommons.scheduler.models import SizeView
from gpucommons.scheduler.models.text.size_words import size_text

NAMES = ("milli_gpu", "memory_mib", "text", "code", "lent")


def offered(world: World, user: str = "ann") -> list[SizeView]:
    found = available_notebook_sizes.sizes(world.cluster, TeamName("vision"), TRAIN, UserName(user))
    return [
        SizeView(
            **{name: getattr(one, name) for name in NAMES},
            availability=one.availability.value,
            values=dict(one.values),
        )
        for one in found
    ]


@pytest.mark.parametrize("fixed_milli_gpu", [0, 500, 1000])
def test_a_sentence_that_is_made_from_its_code_is_the_schedulers_own(fixed_milli_gpu: int) -> None:
    world = World(a_node(gpus=2), teams=[a_team(fixed_milli_gpu=fixed_milli_gpu)])
    if fixed_milli_gpu:
        world.run(a_notebook("bob", 500))
    for size in offered(world):
        assert size_text(size) == (size.text, True)
        with spoken("de"):
            said, is_translated = size_text(size)
        assert is_translated
        assert said != size.text


@pytest.mark.parametrize("code", ["", "of-a-newer-scheduler", "in-use"])
def test_a_sentence_that_is_not_known_here_stays_as_it_came(code: str) -> None:
    size = SizeView(milli_gpu=500, memory_mib=1, availability="wait", text="waits", code=code)
    with spoken("de"):
        assert size_text(size) == ("waits", False)
