"""One press starts what was started last, and says so where it cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tornado.web import HTTPError

from gpucommons.spawner.form.answers import BadOptions
from gpucommons.spawner.form.form_mixin import read_start
from gpucommons.spawner.form.start_again import again_url, options_of_last

LAST = {"milli_gpu": 500, "team": "vision", "pool": "gpu", "environment": "py", "profile": "small"}
TICKET = {"ticket": "0190aaaa-0000-7000-8000-000000000001"}


def spawner(last: dict[str, Any] | None) -> Any:
    stored = None if last is None else SimpleNamespace(user_options=last)
    return SimpleNamespace(orm_spawner=stored, read_form=lambda form: {"read": form})


@pytest.mark.parametrize("name", ["again", "opt-again"])
def test_the_last_options_are_taken_as_they_are_kept_but_for_the_place_in_line(name: str) -> None:
    found = read_start(spawner({**LAST, **TICKET}), {name: ["1"], "_xsrf": ["token"]})

    assert found == LAST


def test_other_forms_are_read_as_ever() -> None:
    assert read_start(spawner(LAST), {"offer": ["cpu"]}) == {"read": {"offer": ["cpu"]}}


@pytest.mark.parametrize("last", [None, {}])
def test_who_never_started_anything_is_told_to_choose(last: dict[str, Any] | None) -> None:
    with pytest.raises(HTTPError) as caught:
        read_start(spawner(last), {"again": ["1"]})

    assert caught.value.status_code == 400
    assert "choose a size" in str(caught.value)


def test_something_else_besides_is_refused() -> None:
    with pytest.raises(BadOptions, match="leave out milli_gpu"):
        options_of_last({"again": ["1"], "opt-milli_gpu": ["1000"]}, LAST)


def test_the_link_keeps_where_its_reader_was_going() -> None:
    assert again_url("/hub/spawn/a?next=%2Flab") == "/hub/spawn/a?next=%2Flab&opt-again=1"
    assert again_url("/hub/spawn/a") == "/hub/spawn/a?opt-again=1"
