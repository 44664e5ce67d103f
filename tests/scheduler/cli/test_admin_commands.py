"""Teams, quotas, nodes and idle notebooks: the same answers as the *GPU admin* page and REST."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from command_line import Cli, WatchedWorld, submitted
from service_world import CONFIG, done
from spent_budgets import growing_pools

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageSample
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.operating import notebooks
from gpucommons.scheduler.cli.operating.nodes import growth_text
from gpucommons.scheduler.cli.operating.teams import _only_pool
from gpucommons.scheduler.cli.present import clock
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.core.model.intents import NoteSlowNodes
from gpucommons.scheduler.core.model.resources import SlowNode, SlowPair, UnhealthyDevice
from gpucommons.scheduler.core.model.types import Millis, NodeId
from gpucommons.scheduler.service import idle, leases
from gpucommons.scheduler.service import parking as service_parking

#: As long as the command waits.
_SILENT_S = 90
NOW_MS = 1_800_000_000_000


@pytest.fixture
def lease(world: WatchedWorld) -> models.LeaseView:
    """Ann's notebook on half a GPU."""
    request = models.LeaseRequest(user="ann", milli_gpu=500)
    held = done(leases.acquire(world.service, world.hub_service, request, key=None))
    report = models.StartedReport(pid=4242)
    return done(leases.started(world.service, world.hub_service, held.id, report))


def read_gpu(world: WatchedWorld, lease: models.LeaseView) -> None:
    """The node agent has looked at the slice: nothing computes."""
    assert lease.slice is not None
    sample = UsageSample(
        slice_id=SliceId(lease.slice.slice_id),
        at_ms=world.now_ms,
        compute_percent=0,
        memory_used_mib=10,
        memory_limit_mib=1000,
        processes=1,
    )
    world.agent.samples = (sample,)


def reported(world: WatchedWorld, lease: models.LeaseView, *, busy: bool) -> None:
    kernels = [models.KernelActivity(kind="kernel", name="python3", busy=busy)]
    body = models.ActivityReport(kernels=kernels)
    idle.report_activity(world.service, world.principal("ann"), lease.id, body)


@pytest.fixture
def admin(state: Path) -> SchedulerClient:
    with SchedulerClient(f"unix:{state / 'api.sock'}", token="root-token") as client:
        yield client


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


# --- teams and quotas ------------------------------------------------------------------------


def test_teams_are_listed_with_quota_and_use(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView
) -> None:
    listed = {row[0]: row[1:] for row in rows(cli("teams", by="root").out)}

    assert listed["vision"] == ["gpu", "½", "of", "1", "0", "of", "1", "0", "none", "1", "0"]
    assert listed["nlp"] == ["gpu", "0", "of", "1", "0", "of", "1", "0", "none", "1", "0"]


def test_who_changed_quotas_is_told_newest_first(cli: Cli) -> None:
    cli("quota", "set", "vision", "--guaranteed", "½", by="root")
    cli("quota", "set", "nlp", "--weight", "3", by="root")
    newest, before, *_ = cli("teams", "--changes", by="root").out.splitlines()[1:]
    assert newest.endswith("root  nlp in pool gpu: weight 1 → 3.")
    assert before.endswith("root  vision in pool gpu: guaranteed 1 → ½.")
    theirs = cli("teams", "--changes", by="ada").out
    assert "vision in pool gpu" in theirs
    assert "nlp in pool gpu" not in theirs


def test_what_a_file_changed_is_told(cli: Cli, home: Path) -> None:
    (home / "pool.yaml").write_text("pools: [{name: gpu, notice_s: 77}]\n")
    planned = cli("apply", "-f", "pool.yaml", "--dry-run", by="root").out
    assert planned.startswith("Would be applied:\n  The pool gpu: notice 10 s → 77 s")
    assert "notice 10 s → 77 s" not in cli("teams", "--changes", by="root").out
    assert cli("apply", "-f", "pool.yaml", by="root").code == 0
    again = cli("apply", "-f", "pool.yaml", "--dry-run", by="root")
    assert again.out == "Nothing would change.\n"
    newest = cli("teams", "--changes", by="root").out.splitlines()[1]
    assert "root  The pool gpu: notice 10 s → 77 s" in newest


def test_a_quota_is_changed_where_it_is_named(cli: Cli, admin: SchedulerClient) -> None:
    done = cli("quota", "set", "vision", "--fixed", "½", "--limit", "4", by="root")

    assert done.code == 0
    assert "GPUs: they fit" in done.out
    team = next(t for t in admin.send(calls.teams()).teams if t.name == "vision")
    assert team.use[0].quota == models.QuotaModel(
        fixed_milli_gpu=500, guaranteed_milli_gpu=1000, limit_milli_gpu=4000
    )
    assert cli("quota", "set", "vision", "--limit", "none", "--weight", "3", by="root").code == 0
    team = next(t for t in admin.send(calls.teams()).teams if t.name == "vision")
    assert team.use[0].quota == models.QuotaModel(
        fixed_milli_gpu=500, guaranteed_milli_gpu=1000, over_quota_weight=3
    )


@pytest.mark.parametrize("fixed", ["½", "9"])
def test_a_dry_run_gives_rests_answer_and_saves_nothing(
    cli: Cli, admin: SchedulerClient, fixed: str
) -> None:
    before = admin.send(calls.teams())
    quota = models.QuotaModel(
        fixed_milli_gpu=500 if fixed == "½" else 9000, guaranteed_milli_gpu=1000
    )
    change = models.QuotaChange(team="vision", pool="gpu", quota=quota)
    by_rest = admin.send(calls.set_quotas(models.QuotaChanges(changes=[change], dry_run=True)))

    done = cli("quota", "set", "vision", "--fixed", fixed, "--dry-run", by="root")

    assert (done.code, done.out) == (0 if by_rest.ok else 1, by_rest.text + "\n")
    assert admin.send(calls.teams()) == before


def test_what_cannot_be_laid_out_is_not_saved(cli: Cli, admin: SchedulerClient) -> None:
    before = admin.send(calls.teams())

    done = cli("quota", "set", "vision", "--fixed", "9", by="root")

    assert done.code == 1
    assert "over by" in done.err
    assert admin.send(calls.teams()) == before


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("nowhere", "--fixed", "1"), 4, "no team nowhere. Teams: "),
        (("vision", "--pool", "nowhere", "--fixed", "1"), 4, "nowhere"),
        (("vision", "--fixed", "-1"), 2, "0 or more"),
        (("vision", "--fixed", "lots"), 2, "is not a number of GPUs"),
        (("vision", "--fixed", "1e999999"), 2, "is not a number of GPUs"),
        (("vision", "--weight", "-2"), 2, "weight"),
        (("vision", "--limit", "99999999"), 2, "limit_milli_gpu"),
        (("<b>", "--fixed", "1"), 4, "no team <b>"),
        (("vision",), 2, "Name what to change"),
    ],
)
def test_a_bad_quota_is_refused(
    cli: Cli, admin: SchedulerClient, options: tuple[str, ...], code: int, says: str
) -> None:
    before = admin.send(calls.teams())

    done = cli("quota", "set", *options, by="root")

    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert admin.send(calls.teams()) == before


def test_a_file_of_pools_and_teams_is_applied_whole_or_not_at_all(
    cli: Cli, home: Path, admin: SchedulerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(yaml.safe_dump(dict(CONFIG)))
    config["teams"][0]["quotas"]["gpu"]["over_quota_weight"] = 7
    (home / "teams.yaml").write_text(yaml.safe_dump(config))
    applied = cli("apply", "-f", "teams.yaml", by="root").out
    assert applied.startswith("Applied:\n  ")
    assert " 7" in applied
    (home / "now.yaml").write_text(cli("config", by="root").out)
    assert cli("apply", "-f", "now.yaml", by="root").out == "Nothing changed.\n"
    now = io.BytesIO((home / "now.yaml").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(now))
    assert cli("apply", "-f", "-", by="root").out == "Nothing changed.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"teams:\n- name: 7\n")))
    assert "-: line 2" in cli("apply", "-f", "-", by="root").err
    before = admin.send(calls.get_config())
    assert before.teams[0].quotas["gpu"].over_quota_weight == 7 or (
        before.teams[1].quotas["gpu"].over_quota_weight == 7
    )

    config["teams"][0]["quotas"]["gpu"]["fixed_milli_gpu"] = 500_000
    config["teams"][1]["quotas"]["gpu"]["over_quota_weight"] = 2
    (home / "teams.yaml").write_text(yaml.safe_dump(config))
    assert cli("apply", "-f", "teams.yaml", by="root").code == 1
    for broken in ("teams: [", "- a", "teams: [{name: a, parent: b}, {name: b, parent: a}]"):
        (home / "teams.yaml").write_text(broken)
        done = cli("apply", "-f", "teams.yaml", by="root")
        assert (done.code in (1, 2), "Traceback" in done.err) == (True, False), broken
    assert cli("apply", "-f", "missing.yaml", by="root").code == 2
    assert admin.send(calls.get_config()) == before


# --- nodes -----------------------------------------------------------------------------------


def test_the_capacity_map_shows_who_holds_what(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView, admin: SchedulerClient
) -> None:
    job = submitted(world, role={"milli_gpu": 1000})
    world.pass_time(1000)

    text = cli("nodes", by="root").out

    assert f"{job.name} 1 (" in text
    assert " ½ (notebook · ann)" in text
    assert "notebook ½" not in text, "what it is is said once"
    assert ["c1", "cpu", "ready", "no", "GPU"] in rows(text)
    by_rest = admin.send(calls.nodes()).model_dump(mode="json")
    assert cli("nodes", "--output", "json", by="root").json == by_rest


def test_an_unhealthy_gpu_is_named_with_the_drivers_word(cli: Cli, world: WatchedWorld) -> None:
    n1, *others = world.machine.nodes
    ill = UnhealthyDevice(device=n1.devices[0], text="GPU is lost")
    n1 = replace(n1, devices=n1.devices[1:], unhealthy=(ill,))
    world.machine.nodes = (n1, *others)
    world.pass_time(10_000)

    row = next(line for line in cli("nodes", by="root").out.splitlines() if "GPU is lost" in line)
    assert row.split()[:3] == ["n1", n1.pool, "ready"]
    assert row.endswith("(GPU is lost): takes nothing new")


def test_a_slow_node_is_named_with_since_when_and_until_when(cli: Cli, world: WatchedWorld) -> None:
    slow = SlowNode(
        percent=30, runs=7, since_ms=world.now_ms, until_ms=Millis(world.now_ms + 60_000)
    )
    world.service.ask(world.admin, NoteSlowNodes(slow={NodeId("n1"): slow}))

    shown = [line for line in cli("nodes", by="root").out.splitlines() if line.startswith("n1")]
    since, until = clock(slow.since_ms), clock(slow.until_ms)
    assert f"ready, steps 30 % longer (since {since}, avoided until {until})" in shown[0]
    assert "longer" not in cli("nodes", by="ann").out


def test_a_slow_pair_is_named_at_both_of_its_nodes(cli: Cli, world: WatchedWorld) -> None:
    slow = SlowNode(
        percent=40, runs=7, since_ms=world.now_ms, until_ms=Millis(world.now_ms + 60_000)
    )
    one, other, *_ = sorted(world.cluster.nodes)
    pairs = {one: (SlowPair(other=other, slow=slow),), other: (SlowPair(other=one, slow=slow),)}
    world.service.ask(world.admin, NoteSlowNodes(slow={}, slow_pairs=pairs))

    shown = cli("nodes", by="root").out
    since, until = clock(slow.since_ms), clock(slow.until_ms)
    words = f"steps 40 % longer (since {since}, avoided until {until})"
    assert f"ready, with {other} {words}" in shown
    assert f"ready, with {one} {words}" in shown
    assert "longer" not in cli("nodes", by="ann").out


def test_a_node_is_cordoned_fenced_and_taken_back(cli: Cli, admin: SchedulerClient) -> None:
    states, told, shown = [], [], []
    for action in ("cordon", "uncordon", "cordon", "fence"):
        done = cli("nodes", action, "n1", "--reason", "power supply", by="root")
        assert done.code == 0
        told.append(done.out.split(maxsplit=1)[1].strip())
        table = rows(cli("nodes", by="root").out)
        shown.append(next(" ".join(row[2:]) for row in table if row[0] == "n1"))
        states.append(next(n.state for n in admin.send(calls.nodes()).nodes if n.id == "n1"))

    assert states == ["cordoned", "ready", "cordoned", "fenced"]
    cordoned = "takes nothing new (power supply)"
    words = [cordoned, "ready", cordoned, "fenced (power supply)"]
    assert told == words
    assert [row.startswith(word) for row, word in zip(shown, words, strict=True)] == [True] * 4
    said = [event.text for event in admin.send(calls.events(newest=50)).events]
    assert any("power supply" in text for text in said)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("fence", "nowhere"), 4, "no node 'nowhere'"),
        (("cordon",), 2, "Name the node to cordon"),
        (("explode", "n1"), 2, "invalid choice"),
        (("cordon", "n1", "--reason", "\x1b[2J"), 2, "reason"),
    ],
)
def test_a_bad_node_command_is_refused(
    cli: Cli, options: tuple[str, ...], code: int, says: str
) -> None:
    done = cli("nodes", *options, by="root")

    assert (done.code, says in done.err) == (code, True), done
    assert "\x1b" not in done.err


# --- idle notebooks --------------------------------------------------------------------------


def test_notebooks_are_listed_by_how_long_they_idle(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView, admin: SchedulerClient
) -> None:
    since = world.now_ms
    world.pass_time(35 * 60_000)
    reported(world, lease, busy=False)
    report = models.IdleReport(idle_since_ms=since)
    done(idle.report_idle(world.service, world.culler, lease.id, report))

    listed = rows(cli("idle", "list", by="root").out)

    assert listed[0][:6] == [lease.id, "ann", "vision", "½", "35", "min"]
    by_rest = admin.send(calls.activities()).model_dump(mode="json")
    assert cli("idle", "list", "--output", "json", by="root").json == by_rest


def test_a_notebook_that_nobody_reports_on_is_said_so(cli: Cli, lease: models.LeaseView) -> None:
    listed = cli("idle", "list", by="root").out
    assert ("no report" in listed, "not known" in listed, "0 min" in listed) == (True, True, False)


def test_a_notebook_is_in_use_where_that_was_seen_not_where_the_culler_is_silent(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView
) -> None:
    reported(world, lease, busy=True)
    assert "in use" in cli("idle", "list", by="root").out
    world.pass_time(35 * 60_000)
    reported(world, lease, busy=False)
    listed = cli("idle", "list", by="root").out
    assert ("in use" in listed, "not known" in listed) == (False, True)


def test_an_idle_notebook_is_reclaimed_after_its_warning(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView, admin: SchedulerClient
) -> None:
    reported(world, lease, busy=False)
    read_gpu(world, lease)

    answer = cli("reclaim", lease.id, by="root")

    assert answer.code == 0
    assert answer.out.startswith("ann: the GPU is to be returned at ")
    view = admin.send(calls.lease(lease.id))
    assert view.state == "warned"


def test_a_notebook_is_parked_and_the_answer_says_what_came_of_it(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cli("idle", "park", "ann", by="root")
    assert (refused.code, "This notebook cannot be parked." in refused.err) == (1, True)
    pools = world.loop.cluster.pools
    pools["gpu"] = replace(pools["gpu"], on_idle=("park", "cull"))
    can = models.ActivityReport(parks=True)
    idle.report_activity(world.service, world.principal("ann"), lease.id, can)
    clock, words = SimpleNamespace(now_s=0.0), ["", "It uses managed memory."]

    def sleep(seconds: float) -> None:
        """What its server would do meanwhile."""
        clock.now_s += seconds
        if clock.now_s > _SILENT_S:
            report = models.ParkedReport(because=words.pop(), host_mib=512)
            ann = world.principal("ann")
            done(service_parking.report_parked(world.service, ann, lease.id, report))

    waits = SimpleNamespace(monotonic=lambda: clock.now_s, sleep=sleep)
    monkeypatch.setattr(notebooks, "time", waits)

    said = [cli("idle", "park", "ann", by="root") for _ in range(4)]

    assert [(each.code, each.out) for each in said] == [
        (0, "ann: still being parked; ask again to hear what came of it\n"),
        (
            1,
            "ann: not parked, and goes on with its GPU: its server says: It uses managed memory.\n",
        ),
        (0, "ann: parked: its GPU is free for others until its user runs a cell\n"),
        (0, "ann: parked: its GPU is free for others until its user runs a cell\n"),
    ]


def test_a_busy_notebook_is_reclaimed_by_force_and_reason_alone(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView
) -> None:
    reported(world, lease, busy=True)

    plain = cli("reclaim", lease.id, by="root")
    without_reason = cli("reclaim", lease.id, "--force", by="root")
    assert (plain.code, "Not reclaimed" in plain.err) == (1, True)
    assert f"gpucommons reclaim {lease.id} --force --reason 'WHY'" in plain.err
    assert (without_reason.code, "Write a reason" in without_reason.err) == (2, True)
    assert world.server_acts == []
    by_force = cli("reclaim", lease.id, "--force", "--reason", "deadline", by="root")
    assert (by_force.code, by_force.out.startswith("ann: the notebook is stopped now")) == (0, True)
    assert ("StopServer", "ann") in world.server_acts


def test_the_memory_of_a_notebook_in_use_is_changed(
    cli: Cli, lease: models.LeaseView, admin: SchedulerClient
) -> None:
    answer = cli("resize", lease.id, "8.5", by="root")

    assert (answer.code, answer.out) == (0, "ann: 8.5 GiB of GPU memory\n")
    view = admin.send(calls.lease(lease.id))
    assert view.slice is not None
    assert view.slice.memory_mib == 8704
    assert cli("resize", lease.id, "8.5", by="ann").code == 5
    for wrong in ("-1", "many", "nan", "1e30", "0"):
        assert cli("resize", lease.id, wrong, by="root").code == 2


@pytest.mark.parametrize("ref", ["nothing", "01931c3e-0000-7000-8000-000000000000"])
def test_an_unknown_lease_is_refused(cli: Cli, ref: str) -> None:
    assert cli("reclaim", ref, by="root").code in (2, 4)


def test_what_is_no_notebook_is_said_in_words(cli: Cli) -> None:
    resized, reclaimed = cli("resize", "nope", "8", by="root"), cli("reclaim", "nope", by="root")

    assert resized.code == 2
    assert "'nope' is not the id of a notebook's lease: `gpucommons idle list`" in resized.err
    assert reclaimed.code == 4
    assert "'nope' names no notebook that holds a GPU: `gpucommons idle list`" in reclaimed.err


@pytest.mark.parametrize("name", ["ann", "ann/default"])
def test_a_notebook_is_named_by_its_user_and_server(
    cli: Cli, world: WatchedWorld, lease: models.LeaseView, name: str
) -> None:
    reported(world, lease, busy=False)
    read_gpu(world, lease)

    answer = cli("reclaim", name, by="root")

    assert answer.code == 0
    assert answer.out.startswith("ann: the GPU is to be returned at ")
    assert cli("reclaim", "ann/other", by="root").code == 4


def test_nodes_that_are_asked_for_are_listed_with_what_is_said_of_them() -> None:
    lines = growth_text(growing_pools(NOW_MS)).splitlines()

    assert lines[1].split("  ")[0] == "cloud"
    assert lines[1].endswith("(late)")
    assert lines[2].split() == ["h100", "2", "0", "2", "0", "0"]
    assert lines[3].endswith("refused")
    assert lines[4] == "cloud: The cluster's autoscaler works on it."
    assert lines[5].startswith("spot: No node can be asked for in pool spot")


def test_where_no_pool_gets_nodes_by_demand_that_is_said(cli: Cli) -> None:
    assert cli("nodes", "growth", by="root").out.startswith("No pool gets nodes by demand")
    assert cli("nodes", "growth", "--output", "json", by="root").json["pools"] == []


# --- who may ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("quota", "set", "vision", "--fixed", "0"),
        ("nodes", "fence", "n1"),
        ("nodes", "growth"),
        ("apply", "-f", "empty.yaml"),
        ("idle", "list"),
    ],
)
def test_what_admins_do_others_may_not(cli: Cli, home: Path, command: tuple[str, ...]) -> None:
    (home / "empty.yaml").write_text("teams: []\n")

    answer = cli(*command, by="ann")

    assert (answer.code, answer.out) == (5, "")


def test_nobodys_token_is_refused(cli: Cli) -> None:
    answer = cli("teams", by="stranger")

    assert (answer.code, answer.out) == (5, "")


@pytest.mark.parametrize(
    ("with_gpus", "without", "found"),
    [
        (["gpu"], ["cpu"], "gpu"),
        ([], ["cpu"], "cpu"),
        (["a", "b"], [], None),
        ([], ["a", "b"], None),
    ],
)
def test_a_pool_need_not_be_named_where_one_alone_can_be_meant(
    with_gpus: list[str], without: list[str], found: str | None
) -> None:
    def pool(name: str, milli_gpu: int) -> models.PoolView:
        return models.PoolView.model_construct(name=name, total_milli_gpu=milli_gpu)

    pools = [*(pool(name, 4000) for name in with_gpus), *(pool(name, 0) for name in without)]

    assert _only_pool(models.PoolList(pools=pools, now_ms=0)) == found
