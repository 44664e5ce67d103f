"""Quotas as texts: shown, read back, compared."""

from __future__ import annotations

from typing import Any

import pytest

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.pages.present.quotas.inputs import (
    QuotaInput,
    QuotaInputs,
    QuotaTexts,
    changes_from,
    difference,
)
from gpucommons.scheduler.pages.present.quotas.table import quota_tables


def _inputs(**changes: str) -> QuotaInputs:
    row = {
        "team": "vision", "pool": "a100", "fixed": "3", "guaranteed": "4", "limit": "8",
        "weight": "2",
    }  # fmt: skip
    return QuotaInputs(rows=[QuotaInput.model_validate(row | changes)])


def test_a_table_shows_every_team_with_its_sum(cluster: Any) -> None:
    table = quota_tables(cluster.teams().teams, cluster.pools().pools)[0]

    assert [(row.team, row.fixed, row.guaranteed, row.limit, row.weight) for row in table.rows] == [
        ("nlp", "4", "12", "24", "3"),
        ("speech", "2", "6", "6", "1"),
        ("vision", "2", "4", "8", "2"),
    ]
    assert table.sum_text == "8 fixed + 22 guaranteed = 30 of 32 GPUs"
    assert not table.over


def test_too_much_quota_is_named(cluster: Any) -> None:
    small = cluster.pools().pools[0].model_copy(update={"total_milli_gpu": 28_000})
    table = quota_tables(cluster.teams().teams, [small])[0]

    assert table.sum_text == "8 fixed + 22 guaranteed = 30 of 28 GPUs: over by 2"
    assert table.over


def test_gpus_that_are_not_to_give_out_now_still_back_quotas(cluster: Any) -> None:
    change = {"total_milli_gpu": 0, "out_milli_gpu": 32_000}
    out = cluster.pools().pools[0].model_copy(update=change)
    table = quota_tables(cluster.teams().teams, [out])[0]

    assert table.sum_text == (
        "8 fixed + 22 guaranteed = 30 of 32 GPUs, 32 of them not to give out now"
    )
    assert not table.over


def test_parents_are_above_their_teams_and_only_sum(cluster: Any) -> None:
    lab = models.TeamView(name="lab")
    teams = [team.model_copy(update={"parent": "lab"}) for team in cluster.teams().teams]
    table = quota_tables([*teams, lab], cluster.pools().pools)[0]

    assert [(row.team, row.depth, row.editable) for row in table.rows] == [
        ("lab", 0, False),
        ("nlp", 1, True),
        ("speech", 1, True),
        ("vision", 1, True),
    ]


def test_a_team_whose_parent_is_hidden_is_still_shown(cluster: Any) -> None:
    orphan = cluster.teams().teams[0].model_copy(update={"parent": "secret"})

    assert quota_tables([orphan], cluster.pools().pools)[0].rows[0].team == "vision"


def test_the_bar_is_full_when_a_team_uses_all_that_is_its_own(cluster: Any) -> None:
    team = cluster.teams().teams[0]
    use = team.use[0].model_copy(update={"borrowed_milli_gpu": 0})

    row = quota_tables([team.model_copy(update={"use": [use]})], cluster.pools().pools)[0].rows[0]

    assert [(part.shown_as, part.left, part.width) for part in row.segments] == [
        ("notebook", 0, 33.333),
        ("guaranteed", 33.333, 66.667),
    ]


def test_the_bar_of_a_team_without_quota_is_what_it_borrows_of_what_it_may(cluster: Any) -> None:
    team = cluster.teams().teams[0]
    use = team.use[0].model_copy(
        update={
            "quota": models.QuotaModel(limit_milli_gpu=64_000, over_quota_weight=1),
            "fixed_used_milli_gpu": 0,
            "guaranteed_used_milli_gpu": 0,
            "borrowed_milli_gpu": 8000,
        }
    )

    row = quota_tables([team.model_copy(update={"use": [use]})], cluster.pools().pools)[0].rows[0]

    assert [(part.shown_as, part.width) for part in row.segments] == [("borrowed", 25)]


def test_the_bar_makes_room_for_what_is_borrowed(cluster: Any) -> None:
    row = quota_tables(cluster.teams().teams, cluster.pools().pools)[0].rows[2]

    assert [(part.shown_as, part.left, part.width) for part in row.segments] == [
        ("notebook", 0, 25),
        ("guaranteed", 25, 50),
        ("borrowed", 75, 25),
    ]
    assert row.in_use == "2 in notebooks, 4 guaranteed, 2 borrowed"
    assert row.own == "6 of 6 GPUs"


def test_two_notebooks_on_halves_are_one_gpu_of_the_teams_own_six(cluster: Any) -> None:
    team = cluster.teams().teams[0]
    held = {
        "fixed_used_milli_gpu": 1000,
        "guaranteed_used_milli_gpu": 0,
        "borrowed_milli_gpu": 0,
    }
    use = team.use[0].model_copy(update=held)

    row = quota_tables([team.model_copy(update={"use": [use]})], cluster.pools().pools)[0].rows[0]

    assert (row.in_use, row.own) == ("1 in notebooks", "1 of 6 GPUs")


def test_a_team_that_borrows_and_uses_none_of_its_own_has_all_of_it_left(cluster: Any) -> None:
    team = cluster.teams().teams[0]
    held = {"fixed_used_milli_gpu": 0, "guaranteed_used_milli_gpu": 0, "borrowed_milli_gpu": 6000}
    use = team.use[0].model_copy(update=held)

    row = quota_tables([team.model_copy(update={"use": [use]})], cluster.pools().pools)[0].rows[0]

    assert (row.in_use, row.own) == ("6 borrowed", "0 of 6 GPUs")


def test_a_team_without_a_quota_is_said_to_have_none(cluster: Any) -> None:
    """Its bar is drawn beside what it may borrow, which is not its own."""
    team, pools = cluster.teams().teams[0], cluster.pools().pools
    none = models.QuotaModel(over_quota_weight=1)
    for borrowed, own in ((0, "0, no quota"), (1500, "1½, no quota")):
        held = {"fixed_used_milli_gpu": 0, "guaranteed_used_milli_gpu": 0}
        use = team.use[0].model_copy(update={**held, "borrowed_milli_gpu": borrowed, "quota": none})
        (table,) = quota_tables([team.model_copy(update={"use": [use]})], pools)
        assert table.rows[0].own == own


def test_edits_are_read_as_people_write_them() -> None:
    change = changes_from(_inputs(fixed="2½", limit=" "), dry_run=True).changes[0]

    assert change.quota == models.QuotaModel(
        fixed_milli_gpu=2500,
        guaranteed_milli_gpu=4000,
        limit_milli_gpu=None,
        over_quota_weight=2,
    )


def test_an_edit_says_what_its_page_showed() -> None:
    (row,) = _inputs(fixed="3").rows
    shown = QuotaTexts(fixed="2", guaranteed="4", limit="", weight="2")
    seen = QuotaInputs(rows=[row.model_copy(update={"was": shown})])

    assert changes_from(seen, dry_run=False).changes[0].was == models.QuotaModel(
        fixed_milli_gpu=2000,
        guaranteed_milli_gpu=4000,
        limit_milli_gpu=None,
        over_quota_weight=2,
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"fixed": "abc"}, "fixed of vision in pool a100: 'abc' is not a number of GPUs"),
        ({"guaranteed": "-1"}, "guaranteed of vision in pool a100: '-1' is not a number of GPUs"),
        ({"limit": "0.00001"}, "limit of vision in pool a100"),
        ({"limit": "5000"}, "more than the 1024 GPUs"),
        ({"weight": " "}, "weight of vision in pool a100 is empty: write 1 for a plain share"),
        ({"weight": "1.5"}, "weight of vision in pool a100: '1.5' is not a whole number"),
        ({"weight": "1001"}, "is not a whole number from 0 (never borrows) to 1000"),
        ({"weight": "²"}, "is not a whole number"),
        ({"team": "../etc"}, "../etc"),
    ],
)
def test_a_wrong_edit_is_refused_with_team_and_column(
    changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        changes_from(_inputs(**changes), dry_run=True)

    assert sentence in str(refused.value)


def test_the_same_row_twice_is_refused() -> None:
    twice = QuotaInputs(rows=[*_inputs().rows, *_inputs(fixed="1").rows])

    with pytest.raises(BadRequest, match="twice"):
        changes_from(twice, dry_run=False)


def test_the_difference_names_old_and_new(cluster: Any) -> None:
    changes = changes_from(_inputs(fixed="3", limit=""), dry_run=True)

    assert difference(cluster.teams().teams, changes) == (
        "vision · a100: fixed 2 → 3, limit 8 → none",
    )


def test_nothing_changed_is_no_difference(cluster: Any) -> None:
    assert difference(cluster.teams().teams, changes_from(_inputs(fixed="2"), dry_run=True)) == ()


@pytest.mark.parametrize("column", ["fixed", "guaranteed"])
def test_a_cleared_field_is_asked_about_and_takes_nothing_away(column: str) -> None:
    with pytest.raises(
        BadRequest, match=f"{column} of vision in pool a100 is empty: write 0 for none"
    ):
        changes_from(_inputs(**{column: " "}), dry_run=True)
