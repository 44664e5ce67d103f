"""Quotas, configuration and nodes: all or nothing, audited, for admins."""

from typing import Any

import pytest
from service_world import ServiceWorld, a_request, done

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import Intent
from gpucommons.scheduler.errors import (
    BadRequest,
    CannotLayOut,
    Conflict,
    Forbidden,
    Misconfigured,
    Unavailable,
    UnknownNode,
    UnknownPool,
    UnknownTeam,
)
from gpucommons.scheduler.service.administration import cluster, history, settings, usage_report
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.store.base import Admit


def changes(*rows: tuple[str, int, int], dry_run: bool = False) -> models.QuotaChanges:
    return models.QuotaChanges(
        changes=[
            models.QuotaChange(
                team=team,
                pool="gpu",
                quota=models.QuotaModel(fixed_milli_gpu=fixed, guaranteed_milli_gpu=guaranteed),
            )
            for team, fixed, guaranteed in rows
        ],
        dry_run=dry_run,
    )


def quota_of(world: ServiceWorld, team: str) -> tuple[int, int]:
    teams = cluster.teams(world.service, world.admin).teams
    (use,) = next(one for one in teams if one.name == team).use
    return use.quota.fixed_milli_gpu, use.quota.guaranteed_milli_gpu


def test_a_quota_is_saved_with_an_audit_row(world: ServiceWorld) -> None:
    view = done(settings.set_quotas(world.service, world.admin, changes(("vision", 500, 1500))))
    assert view.ok
    assert view.text == "1½ fixed + 2½ guaranteed = 4 of 4 GPUs: they fit"
    assert quota_of(world, "vision") == (500, 1500)
    where = history.EventFilter(kinds=frozenset({"quota-changed"}), newest=1)
    (event,) = history.newest_events(world.service, world.admin, where).events
    assert (event.by, event.team) == ("root", "vision")
    assert event.data["old"] != event.data["new"]


def test_an_edit_of_what_another_has_changed_meanwhile_is_refused(world: ServiceWorld) -> None:
    (row,) = changes(("vision", 500, 1500)).changes
    seen = row.model_copy(
        update={"was": models.QuotaModel(fixed_milli_gpu=1000, guaranteed_milli_gpu=1000)}
    )
    done(settings.set_quotas(world.service, world.admin, models.QuotaChanges(changes=[seen])))
    for dry_run in (True, False):
        late = models.QuotaChanges(changes=[seen], dry_run=dry_run)
        with pytest.raises(Conflict, match="vision in pool gpu was changed meanwhile"):
            done(settings.set_quotas(world.service, world.admin, late))
    assert quota_of(world, "vision") == (500, 1500)


def test_of_two_edits_of_one_quota_in_one_cycle_the_second_is_refused(
    world: ServiceWorld,
) -> None:
    was = models.QuotaModel(fixed_milli_gpu=1000, guaranteed_milli_gpu=1000)
    first, second = (
        settings.set_quotas(
            world.service,
            world.admin,
            models.QuotaChanges(changes=[row.model_copy(update={"was": was})]),
        )
        for row in changes(("vision", 500, 1500)).changes + changes(("vision", 0, 500)).changes
    )
    done(first)
    with pytest.raises(Conflict, match="changed meanwhile"):
        done(second)
    assert quota_of(world, "vision") == (500, 1500)


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        (2000, [0, 250, 500, 1000, 2000]),
        (4000, [0, 250, 500, 1000, 2000, 3000, 4000]),
        (None, [0, 250, 500, 1000, 2000, 3000, 4000]),
    ],
)
def test_forms_are_offered_what_the_pool_has_and_the_team_may_hold(
    world: ServiceWorld, limit: int | None, sizes: list[int]
) -> None:
    quota = models.QuotaModel(guaranteed_milli_gpu=1000, limit_milli_gpu=limit)
    change = models.QuotaChange(team="vision", pool="gpu", quota=quota)
    done(settings.set_quotas(world.service, world.admin, models.QuotaChanges(changes=[change])))

    teams = cluster.teams(world.service, world.admin).teams
    assert next(one for one in teams if one.name == "vision").sizes == sizes


def test_what_cannot_be_laid_out_changes_nothing(world: ServiceWorld) -> None:
    too_much = changes(("vision", 2000, 2000))
    with pytest.raises(CannotLayOut, match="over by 2"):
        done(settings.set_quotas(world.service, world.admin, too_much))
    assert quota_of(world, "vision") == (1000, 1000)
    checked = done(
        settings.set_quotas(
            world.service, world.admin, changes(("vision", 2000, 2000), dry_run=True)
        )
    )
    assert (checked.ok, checked.fixed_milli_gpu, checked.total_milli_gpu) == (False, 3000, 4000)


def test_a_dry_run_that_fits_changes_nothing(world: ServiceWorld) -> None:
    events = world.store.last_event_number()
    checked = done(
        settings.set_quotas(world.service, world.admin, changes(("vision", 500, 500), dry_run=True))
    )
    assert checked.ok
    assert quota_of(world, "vision") == (1000, 1000)
    assert world.store.last_event_number() == events


@pytest.mark.parametrize(
    ("rows", "refusal"),
    [
        ([("nobody", 0, 0)], UnknownTeam),
        ([("vision", 0, 0), ("vision", 500, 0)], Misconfigured),
    ],
)
def test_bad_rows_are_named(
    world: ServiceWorld, rows: list[tuple[str, int, int]], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        settings.set_quotas(world.service, world.admin, changes(*rows))


def test_only_admins_set_anything(world: ServiceWorld) -> None:
    for name in ("ann", "ada"):
        who = world.principal(name)
        with pytest.raises(Forbidden):
            settings.set_quotas(world.service, who, changes(("vision", 500, 500)))
        with pytest.raises(Forbidden):
            settings.put_config(world.service, who, models.ConfigModel())
        with pytest.raises(Forbidden):
            settings.get_config(world.service, who)
        request = models.NodeStateRequest(state="cordoned")
        with pytest.raises(Forbidden):
            settings.set_node_state(world.service, who, "n1", request)


def test_the_configuration_reads_back_as_it_was_written(world: ServiceWorld) -> None:
    found = settings.get_config(world.service, world.admin)
    again = models.ConfigModel.model_validate_json(found.model_dump_json())
    done(settings.put_config(world.service, world.admin, again))
    assert settings.get_config(world.service, world.admin) == found


@pytest.mark.parametrize(
    ("config", "refusal", "sentence"),
    [
        (
            {"pools": [{"name": "new"}], "teams": [{"name": "big", "quotas": {"gpu": {"fixed_milli_gpu": 4000}}}]},
            CannotLayOut,
            "over by",
        ),
        ({"pools": [{"name": "new"}], "teams": [{"name": "a", "parent": "a"}]}, Misconfigured, "circle"),
        ({"pools": [{"name": "new"}, {"name": "new"}]}, Misconfigured, "twice"),
        ({"pools": [{"name": "new", "notebook_sizes": [300]}]}, Misconfigured, "no notebook size"),
        ({"teams": [{"name": "a", "quotas": {"moon": {}}}]}, UnknownPool, "moon"),
        ({"pools": [{"name": "new"}], "teams": [{"name": "a", "parent": "b"}]}, UnknownTeam, "b"),
    ],
)  # fmt: skip
def test_a_configuration_is_applied_whole_or_not_at_all(
    world: ServiceWorld, config: dict[str, object], refusal: type[Exception], sentence: str
) -> None:
    before = world.cluster
    with pytest.raises(refusal, match=sentence):
        settings.put_config(world.service, world.admin, models.ConfigModel(**config))
    world.loop.cycle()
    assert (world.cluster.pools, world.cluster.teams) == (before.pools, before.teams)


def test_a_limit_below_the_guarantee_is_refused(world: ServiceWorld) -> None:
    quota = models.QuotaModel(guaranteed_milli_gpu=1000, limit_milli_gpu=500)
    row = models.QuotaChange(team="vision", pool="gpu", quota=quota)
    with pytest.raises(Misconfigured, match="below the guarantee"):
        settings.set_quotas(world.service, world.admin, models.QuotaChanges(changes=[row]))


def test_a_cordoned_node_takes_nothing_new(world: ServiceWorld) -> None:
    request = models.NodeStateRequest(state="cordoned", reason="new fans")
    view = done(settings.set_node_state(world.service, world.admin, "n1", request))
    assert (view.state, view.state_text) == ("cordoned", "new fans")
    ann = world.principal("ann")
    seen = cluster.nodes(world.service, ann).nodes
    assert [one.state_text for one in seen if one.id == "n1"] == [""], "for admins"
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 500}), key=None)
    assert jobs.job(world.service, ann, "digits-1").state == "queued"
    with pytest.raises(UnknownNode, match="n1"):
        settings.set_node_state(world.service, world.admin, "n9", request)


def test_a_node_that_its_cloud_takes_back_takes_nothing_new(world: ServiceWorld) -> None:
    request = models.NodeNoticeRequest(in_s=120)
    view = done(settings.notice_node(world.service, world.admin, "n1", request))
    assert (view.state, view.leaves_ms) == ("cordoned", world.now_ms + 120_000)
    with pytest.raises(Forbidden):
        settings.notice_node(world.service, world.principal("ann"), "n1", request)
    with pytest.raises(UnknownNode, match="n1"):
        settings.notice_node(world.service, world.admin, "n9", request)


def test_the_map_shows_others_work_without_names(world: ServiceWorld) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(role={"milli_gpu": 500}), key=None)
    for name, expected in (("alf", ("digits-1", "ann")), ("bob", (None, ""))):
        nodes = cluster.nodes(world.service, world.principal(name)).nodes
        (hold,) = [h for n in nodes for d in n.devices for h in d.holds]
        assert (hold.name, hold.owner) == expected
        assert (hold.team, hold.shown_as, hold.milli_gpu) == ("vision", "guaranteed", 500)


def test_policy_may_show_names_of_others(world: ServiceWorld) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    config = models.ConfigModel(policy=models.PolicyModel(show_names=True))
    done(settings.put_config(world.service, world.admin, config))
    where = jobs.JobFilter(team="vision")
    (seen,) = jobs.jobs(world.service, world.principal("bob"), where, cursor=None).jobs
    assert (seen.owner, seen.request) == ("ann", None)


def test_pools_say_what_is_free(world: ServiceWorld) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(role={"milli_gpu": 500}), key=None)
    pools = {p.name: p for p in cluster.pools(world.service, world.principal("bob")).pools}
    assert (pools["gpu"].total_milli_gpu, pools["gpu"].free_milli_gpu) == (4000, 3500)
    assert pools["gpu"].gpu_kind == "A100-40"
    assert pools["cpu"].total_milli_gpu == 0


def test_a_report_is_of_own_teams_and_of_a_span(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    jobs.submit(world.service, ann, a_request(role={"milli_gpu": 1000}), key=None)
    world.pass_time(3_600_000 + 60_000)
    span = {"from_ms": world.now_ms - 4_000_000, "to_ms": world.now_ms + 1}
    (row,) = usage_report.report(world.service, ann, **span).rows
    assert (row.team, row.owner) == ("vision", "ann")
    assert row.held_milli_gpu_h == pytest.approx(1000, rel=0.02)
    assert row.used_milli_gpu_h is None
    assert usage_report.report(world.service, world.principal("bob"), **span).rows == []
    assert len(usage_report.report(world.service, world.admin, **span).rows) == 1
    with pytest.raises(BadRequest, match="no span"):
        usage_report.report(world.service, ann, from_ms=5, to_ms=5)


def test_events_are_of_own_teams(world: ServiceWorld) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    seen = done(history.events(world.service, world.principal("alf"), history.EventFilter()))
    assert "submitted" in {event.kind for event in seen.events}
    assert {event.team for event in seen.events} == {"vision"}
    bob = done(history.events(world.service, world.principal("bob"), history.EventFilter()))
    assert "vision" not in {event.team for event in bob.events}
    assert bob.last == seen.last == world.store.last_event_number()
    all_of_them = done(history.events(world.service, world.admin, history.EventFilter()))
    assert {event.team for event in all_of_them.events} >= {None, "vision", "nlp"}


def test_a_request_looks_for_events_among_so_many_and_says_how_far_it_came(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    for _ in range(20):
        jobs.submit(world.service, world.principal("bob"), a_request(), key=None)
    ann, end = world.principal("ann"), world.store.last_event_number()
    everything = done(history.events(world.service, ann, history.EventFilter())).events
    monkeypatch.setattr(history, "_SEARCHED", 7)
    read: list[int] = []
    inner = world.store.events

    def counting(**options: Any) -> Any:
        found = inner(**options)
        read.append(len(found))
        return found

    monkeypatch.setattr(world.store, "events", counting)
    seen, after, requests = [], 0, 0
    while after < end:
        found = done(history.events(world.service, ann, history.EventFilter(after=after)))
        assert found.last > after
        seen, after, requests = seen + found.events, found.last, requests + 1
    assert seen == everything
    assert requests > 2
    assert sum(read) <= len(everything) + requests
    # What is not at the end yet does not wait there.
    further = history.EventFilter(after=everything[-1].number, wait_s=1)
    found = history.events(world.service, ann, further).probe()
    assert found is not None
    assert found.events == []
    waiting = history.events(world.service, ann, history.EventFilter(after=end, wait_s=1))
    assert waiting.probe() is None
    newest = history.newest_events(world.service, ann, history.EventFilter(newest=3))
    assert (newest.events, newest.last) == ([], end)
    of_all = history.newest_events(world.service, world.admin, history.EventFilter(newest=3))
    assert [event.number for event in of_all.events] == [end - 2, end - 1, end]


def test_a_report_adds_up_where_the_rows_are(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_options: Any) -> Any:
        raise AssertionError("all rows were read")

    monkeypatch.setattr(world.store, "ledger", refuse)
    asked: list[Any] = []

    class Counting:
        def usage(self, _steps: object, *, teams: Any) -> Any:
            asked.append(teams)
            return ()

    monkeypatch.setattr(world.store, "reports", Counting())
    for who in (world.principal("ann"), world.principal("bob"), world.admin):
        usage_report.report(world.service, who, from_ms=0, to_ms=60_000)
    # Once for what was held, once for what was before it is known who lent.
    assert asked == [{"vision"}, {"vision"}, {"nlp"}, {"nlp"}, None, None]


def test_events_go_on_after_a_cursor(world: ServiceWorld) -> None:
    ann = world.principal("ann")
    seen = done(history.events(world.service, ann, history.EventFilter()))
    waiting = history.events(world.service, ann, history.EventFilter(after=seen.last, wait_s=1))
    assert waiting.probe() is None
    jobs.submit(world.service, ann, a_request(), key=None)
    found = waiting.probe()
    assert found is not None
    assert found.events[0].kind == "submitted"
    newest = history.EventFilter(newest=1)
    (last,) = history.newest_events(world.service, ann, newest).events
    assert last.number == found.events[-1].number


def test_what_came_between_leaves_a_refused_configuration_without_trace(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = models.ConfigModel(
        pools=[models.PoolModel(name="gpu", grace_s=7), models.PoolModel(name="new")],
        policy=models.PolicyModel(show_names=True),
        removed_teams=["vision"],
    )
    tried = settings.what_if

    def tried_too_early(*trial: Any) -> Any:
        found = tried(*trial)
        monkeypatch.setattr(settings, "what_if", tried)
        only = models.ConfigModel(removed_teams=["vision"])
        done(settings.put_config(world.service, world.admin, only))
        return found

    monkeypatch.setattr(settings, "what_if", tried_too_early)
    before = world.cluster
    with pytest.raises(UnknownTeam, match="no team vision to remove"):
        done(settings.put_config(world.service, world.admin, config))
    assert "vision" not in world.cluster.teams
    assert (world.cluster.pools, world.cluster.policy) == (before.pools, before.policy)
    kinds = frozenset({"pool-created", "policy-changed"})
    told = world.store.events(kinds=kinds)
    assert not [one for one in told if "new" in one.event.text]


def test_a_configuration_is_stored_whole_or_not_at_all(
    world: ServiceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = models.ConfigModel(
        pools=[models.PoolModel(name="new")],
        teams=[models.TeamModel(name="new")],
        policy=models.PolicyModel(show_names=True),
    )
    put, stored = world.store.put_intent, []

    def ends_after_one(intent: Intent, *, admit: Admit | None = None) -> Intent:
        if stored:
            raise Unavailable("The scheduler ends.")
        stored.append(intent)
        return put(intent, admit=admit)

    monkeypatch.setattr(world.store, "put_intent", ends_after_one)
    settings.put_config(world.service, world.admin, config)
    world.loop.cycle()
    assert "new" in world.cluster.pools
    assert "new" in world.cluster.teams
    assert world.cluster.policy.show_names


def test_a_pool_is_run_by_who_runs_all_work_here_said_or_not(world: ServiceWorld) -> None:
    pools = [models.PoolModel(name="new"), models.PoolModel(name="more", executor="fake")]
    done(settings.put_config(world.service, world.admin, models.ConfigModel(pools=pools)))
    assert {pool.executor for pool in world.cluster.pools.values()} == {"fake"}
    applied = settings.get_config(world.service, world.admin)
    done(settings.put_config(world.service, world.admin, applied))


@pytest.mark.parametrize("executor", ["local", "kubernetes", "nomad"])
def test_a_pool_of_an_executor_that_is_not_here_is_refused(
    world: ServiceWorld, executor: str
) -> None:
    config = models.ConfigModel(pools=[models.PoolModel(name="new", executor=executor)])
    with pytest.raises(Misconfigured, match=f"no executor {executor} here, fake runs all work"):
        settings.put_config(world.service, world.admin, config)
