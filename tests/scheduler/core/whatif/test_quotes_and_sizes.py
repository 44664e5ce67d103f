"""What people are told before they ask: the quota line, notebook sizes, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TRAIN, World, a_job, a_node, a_notebook, a_team, ids

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import every_size, with_milli_gpu
from gpucommons.scheduler.core.model.price_and_budget import Budget, BudgetPolicy
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    HoldClass,
    Kind,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.core.passes import notebooks
from gpucommons.scheduler.core.whatif import available_notebook_sizes, quotes
from gpucommons.scheduler.core.whatif.next_shares import hypothetical_notebook
from gpucommons.scheduler.errors import UnknownTeam

VISION, ANN = TeamName("vision"), UserName("ann")
LENT = "yours, back in 60 s: lent to training, which makes room"
BESIDE = "other GPUs are free now, but not for vision's notebooks"


def sizes(world: World, user: str = "ann") -> dict[int, tuple[str, str]]:
    found = available_notebook_sizes.sizes(world.cluster, VISION, TRAIN, UserName(user))
    return {one.milli_gpu: (one.availability, one.text) for one in found}


def test_a_quote_says_in_plain_words_whether_others_could_stop_it_and_when_it_starts() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=2000)])
    one = quotes.quote(world.cluster, a_job("d", 1000), world.now, every_size)
    assert one.hold_class is HoldClass.GUARANTEED
    assert one.starts_now
    assert one.text == (
        "Guaranteed. vision has 2 of 2 guaranteed GPUs free: no other team can stop this job."
        " It would start now."
    )
    world.run(a_job("d-1"))
    four = quotes.quote(world.cluster, a_job("d", 4000), world.now, every_size)
    assert four.hold_class is HoldClass.OVER_QUOTA
    assert not four.starts_now
    assert four.text == (
        "Borrowed. vision has 1 of 2 guaranteed GPUs free, so this job borrows 4: other teams can"
        " take them back, and it waits again. With 1 no other team could stop it."
        " Needs 4 GPUs on one node; 3 are free. Would start now with 3 GPUs."
    )
    assert four.reason is not None
    assert four.reason.text == "Needs 4 GPUs on one node; 3 are free."
    assert (four.guaranteed_milli_gpu, four.guaranteed_used_milli_gpu) == (2000, 1000)
    world.run(a_job("d-2"))
    two = quotes.quote(world.cluster, a_job("d", 2000), world.now, every_size)
    assert two.starts_now
    assert two.text == (
        "Borrowed. vision has 0 of 2 guaranteed GPUs free, so this job borrows 2: other teams can"
        " take them back, and it waits again. It would start now."
    )


@pytest.mark.parametrize("rule", [BudgetPolicy.NO_BORROW, BudgetPolicy.NO_NEW_JOBS])
def test_a_quote_never_says_that_a_job_borrows_what_its_teams_used_up_budget_denies_it(
    rule: BudgetPolicy,
) -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=1000)])
    world.run(a_job("d-1"))
    vision = replace(
        world.cluster.teams[VISION],
        budget=Budget(milli_gpu_h=5000, at_full=rule),
        budget_spent="vision has used up its budget.",
    )
    cluster = replace(world.cluster, teams={VISION: vision})
    for asked in (1000, 2000):
        found = quotes.quote(cluster, a_job("d", asked), world.now, every_size)
        assert found.reason is not None
        assert found.text == found.reason.text
        assert "vision has used up its budget." in found.text


def test_a_quote_never_says_that_a_job_borrows_beyond_its_teams_limit() -> None:
    team = a_team(guaranteed_milli_gpu=1000, limit_milli_gpu=1000)
    world = World(a_node(gpus=4), teams=[team])
    world.run(a_job("d-1"))
    found = quotes.quote(world.cluster, a_job("d"), world.now, every_size)
    assert found.text == "vision may hold 1 GPU in pool train and holds 1; this needs 1."


def test_work_that_leaves_the_guarantee_alone_is_not_said_to_find_it_full() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=2000)])
    trial = quotes.quote(world.cluster, a_job("t", 1000, kind=Kind.RETRAIN), world.now, every_size)
    assert trial.text == (
        "Borrowed. Work of this kind leaves the guarantee of vision to others and runs on idle GPUs,"
        " here 1: other teams can take it back, and it waits again. It would start now."
    )


def test_a_quote_knows_of_the_part_of_a_gpu_that_is_free() -> None:
    world = World(a_node(gpus=3), teams=[a_team()])
    world.run(a_job("two", 2000))
    world.run(a_job("half", 500))
    found = quotes.quote(world.cluster, a_job("d", 3000), world.now, every_size)
    assert found.text.endswith(
        " Needs 3 GPUs on one node; at most ½ of a GPU is free. Would start now with ½ GPU."
    )


def test_a_quote_offers_no_size_that_no_form_has() -> None:
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    for number, size in enumerate((500, 250, 125)):
        world.run(a_job(f"part-{number}", size))
    found = quotes.quote(world.cluster, a_job("d", 500), world.now, every_size)
    assert "Would start now" not in found.text
    assert found.reason is not None
    assert found.reason.startable_milli_gpu is None


def test_a_quote_names_no_size_whose_own_quote_says_otherwise() -> None:
    for held in (125, 250, 500, 1000, 2000, 3000):
        team = a_team(fixed_milli_gpu=1000, guaranteed_milli_gpu=500)
        world = World(a_node(gpus=4), teams=[team, a_team("b")])
        world.run(a_job("theirs", held, team="b"))
        world.submit(a_job("ours", 500))
        for asked in (250, 500, 1000, 2000, 3000, 4000):
            reason = quotes.quote(world.cluster, a_job("d", asked), world.now, every_size).reason
            size = None if reason is None else reason.startable_milli_gpu
            if size is not None:
                assert quotes.quote(
                    world.cluster, a_job("d", size), world.now, every_size
                ).starts_now


def test_a_quote_says_before_the_submit_whose_job_that_would_stop() -> None:
    team = a_team(guaranteed_milli_gpu=500)
    world = World(a_node(gpus=4), teams=[team])
    world.run(a_job("train-1", 4000))
    found = quotes.quote(world.cluster, a_job("train-2", 500), world.now, every_size)
    said = "Would stop train-1 (yours), which goes back in line. It starts its command anew"
    assert f" {said}" in found.text
    assert "being cleared" not in found.text
    assert found.reason is not None
    assert found.reason.text.startswith(said)
    theirs = quotes.quote(
        world.cluster, a_job("train-2", 500, owner=UserName("bob")), world.now, every_size
    )
    assert " Would stop train-1, which goes back in line. It starts its command anew" in theirs.text


def saved(world: World, job: WorkloadId, step: int) -> None:
    attempt_id = world.attempt_id(job)
    checkpoint = Checkpoint(
        attempt_id=attempt_id,
        step=step,
        path=f"checkpoints/step-{step}",
        size_bytes=1,
        sha256="0" * 64,
        at_ms=world.now,
    )
    world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=checkpoint))


def test_a_quote_says_how_who_is_stopped_goes_on_as_far_as_that_is_known() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=500), a_team("b")])
    job = world.run(a_job("train-1", 4000))
    saved(world, job, 5430)
    found = quotes.quote(world.cluster, a_job("train-2", 500), world.now, every_size)
    assert found.text.endswith(
        " Would stop train-1 (yours), which goes back in line. It goes on from step 5,430."
    )


def test_a_quote_says_nothing_of_how_another_teams_job_goes_on() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=500), a_team("b")])
    job = world.run(a_job("theirs", 4000, team="b"))
    saved(world, job, 5430)
    found = quotes.quote(world.cluster, a_job("train-2", 500), world.now, every_size)
    assert found.text.endswith(
        " Would stop a borrowing job of another team, which goes back in line."
    )


def test_a_quote_changes_nothing_and_refuses_like_a_submit() -> None:
    world = World(teams=[a_team()])
    before = world.cluster
    quotes.quote(world.cluster, a_job(), world.now, every_size)
    assert world.cluster is before
    with pytest.raises(UnknownTeam, match="no team nobody"):
        quotes.quote(world.cluster, a_job(team=TeamName("nobody")), world.now, every_size)


def test_a_quote_for_work_without_a_gpu() -> None:
    world = World(teams=[a_team()])
    quoted = quotes.quote(world.cluster, a_job("d", 0), world.now, every_size)
    assert (quoted.hold_class, quoted.starts_now) == (HoldClass.CPU, True)


def test_sizes_are_free_wait_or_never() -> None:
    world = World(a_node(gpus=4), teams=[a_team(fixed_milli_gpu=500)])
    assert sizes(world) == {
        250: ("free", "free now"),
        500: ("free", "free now"),
        1000: ("never", "needs 1, the largest notebook of vision has ½ GPU: ask your admin"),
    }


def test_a_full_team_waits_in_line() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])
    world.submit(a_notebook("bob", 500), redeem=True)
    assert sizes(world)[1000] == (
        "wait",
        "needs 1, vision has ½: wait in line, or ask your admin",
    )
    assert sizes(world)[500] == ("free", "free now")


def test_lent_blocks_are_won_back_by_waiting() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000), a_team("nlp")])
    world.run(a_job("b", 1000, team="nlp"))
    assert sizes(world)[500] == (
        "wait",
        "yours, back in 60 s: lent to training, which makes room",
    )
    found = available_notebook_sizes.sizes(world.cluster, VISION, TRAIN, ANN)
    assert [one.lent for one in found] == [True, True, True]


def test_what_is_free_and_not_the_teams_is_said_to_be_so() -> None:
    """Half of another team's block is free beside a notebook of theirs, and ours is lent whole."""
    teams = [a_team(fixed_milli_gpu=1000), a_team("nlp", fixed_milli_gpu=1000)]
    world = World(a_node(gpus=2), teams=teams)
    world.submit(a_notebook("cyd", 500, team="nlp"), redeem=True)
    world.run(a_job("b", 1000, team="nlp"))
    assert sizes(world)[500] == ("wait", f"{LENT}; {BESIDE}")
    assert sizes(world)[1000] == ("wait", LENT), "no whole one is free"


def lent_and_free_elsewhere(world: World, milli_gpu: int) -> tuple[bool, bool]:
    cycle = CycleState.of(world.cluster.apart(), world.now, ids("x"))
    cycle.refresh()
    ask = with_milli_gpu(hypothetical_notebook(VISION, TRAIN, ANN, ""), milli_gpu)
    return notebooks.could_reclaim(cycle, ask), notebooks.is_free_elsewhere(cycle, ask)


def test_what_is_free_in_the_teams_own_block_is_not_said_to_be_others() -> None:
    teams = [a_team(fixed_milli_gpu=4000), a_team("nlp")]
    world = World(a_node("a", gpus=4), a_node("b", gpus=1), teams=teams)
    world.run(a_job("j", 3000, team="nlp"))
    assert lent_and_free_elsewhere(world, 2000) == (True, False)


def test_one_gpu_free_on_each_of_two_nodes_is_none_for_a_notebook_of_two() -> None:
    teams = [a_team(fixed_milli_gpu=2000), a_team("nlp")]
    world = World(a_node("a", gpus=2), a_node("b", gpus=1), a_node("c", gpus=1), teams=teams)
    world.run(a_job("j", 2000, team="nlp"))
    assert lent_and_free_elsewhere(world, 2000) == (True, False)
    assert lent_and_free_elsewhere(world, 1000) == (True, True)


def test_the_users_own_grant_is_free_for_that_user() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])
    world.submit(a_notebook("ann", 1000))
    assert sizes(world, "ann")[1000][0] == "free"
    assert sizes(world, "bob")[1000][0] == "wait"


def test_a_team_without_fixed_quota_has_no_notebook_sizes() -> None:
    world = World(teams=[a_team()])
    assert set(sizes(world).values()) == {
        ("never", "vision has no notebook GPUs here: ask your admin")
    }
    assert available_notebook_sizes.sizes(world.cluster, TeamName("nobody"), TRAIN, ANN) == ()


def test_sizes_tell_their_memory() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])
    found = available_notebook_sizes.sizes(world.cluster, VISION, TRAIN, ANN)
    assert [one.memory_mib for one in found] == [9933, 19866, 39732]


def test_a_smaller_size_is_called_safe_only_where_a_quote_of_it_says_so() -> None:
    """The guarantee has room, but only GPUs that are kept for notebooks are free."""
    world = World(
        a_node(gpus=2),
        teams=[a_team(guaranteed_milli_gpu=1000, fixed_milli_gpu=1000), a_team("other")],
    )
    world.run(a_job("inside", 500))
    quoted = quotes.quote(world.cluster, a_job("d", 1000), world.now, every_size)
    half = quotes.quote(world.cluster, a_job("d", 500), world.now, every_size)
    said = "With ½ no other team could stop it." in quoted.text
    assert said == (half.hold_class is HoldClass.GUARANTEED)
    world.run(a_job("other", 500, team=TeamName("other")))
    quoted = quotes.quote(world.cluster, a_job("d", 1000), world.now, every_size)
    half = quotes.quote(world.cluster, a_job("d", 500), world.now, every_size)
    assert half.hold_class is HoldClass.OVER_QUOTA
    assert "no other team could stop it" not in quoted.text


def test_a_job_that_runs_says_why_it_borrows_beside_a_free_guarantee() -> None:
    world = World(
        a_node(gpus=2),
        teams=[a_team(guaranteed_milli_gpu=500, fixed_milli_gpu=1000), a_team("other")],
    )
    world.run(a_job("other", 1000, team=TeamName("other")))
    lent = world.run(a_job("lent", 500))
    said = quotes.why_borrowed(world.cluster, world.get(lent), world.now)
    assert said == (
        "Borrowed. It runs on GPUs that are kept for notebooks or for other guarantees, so this job"
        " borrows ½ and stops nobody: other teams can take it back, and it waits again."
        " Its guarantee may win GPUs back then."
    )
    assert quotes.quote(world.cluster, a_job("d", 500), world.now, every_size).text.startswith(
        "Borrowed. Only GPUs that are kept for notebooks"
    )


def test_who_borrows_for_want_of_a_guarantee_is_told_nothing_more() -> None:
    world = World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=500)])
    for job in (world.run(a_job("inside", 500)), world.run(a_job("beyond", 1000))):
        assert quotes.why_borrowed(world.cluster, world.get(job), world.now) == ""
