"""Play the tour: ``python -m benchmarks.tour [--json FILE]``; exit code 1 when a row does not hold."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.hibernation import forbidding, forbidding_users
from benchmarks.tour import (
    elsewhere,
    figures,
    other_account,
    own_accounts,
    rows_admin,
    rows_idle,
    rows_kept,
    rows_notebook,
    rows_training,
)
from benchmarks.tour.laboratory import Kernel
from benchmarks.tour.machine import Machine, idle_cost
from benchmarks.tour.person import Person
from benchmarks.tour.playing import played
from benchmarks.tour.timeline import Timeline, check
from benchmarks.tour_kubernetes import moved_alone

CONFIG = Path(__file__).with_name("tour.yaml")
#: Between them a person presses *Keep*, also on a busy machine.
IDLE_AFTER_S, WARN_AFTER_S = 30, 8


def play(line: Timeline, machine: Machine) -> dict[str, object]:
    """All rows, in an order in which each leaves what the next one needs."""
    alice = rows_notebook.log_in(line, machine, "alice")
    opened = rows_notebook.open_half(line, alice, team="vision")
    job, name, first_log_s = rows_training.submit_borrowing(line, alice, opened.panel)
    lease = alice.lab("GET", "gpucommons/api/lease")["id"]
    silent_since = rows_idle.begin_silence(line, opened)
    bob = Person(machine.url, "bob", machine.password())
    rows_admin.reclaim_busy(line, machine, lease)
    reclaim_extra_s = rows_training.claim_fixed_quota(line, machine, job, bob, "nlp")
    rows_admin.waiting(line, machine, name)
    rows_admin.quotas(line, machine)
    rows_admin.pages(line, Person(machine.url, "admin", machine.password()), alice)
    recovery_s = rows_training.kill_scheduler(line, machine)
    carol = Person(machine.url, "carol", machine.password())
    rows_idle.ticket_in_line(line, bob, carol, team="nlp")
    equal, _ = rows_training.finish(line, machine, alice, job)
    rows_idle.silence_was_kept(line, alice, silent_since, idle_after_s=IDLE_AFTER_S)
    rows_idle.warned_kept_and_dropped(line, alice, opened.kernel)
    culled_s = rows_idle.culled(line, machine, carol)
    kept = play_kept(line, machine, alice, bob)
    rss_mib, cpu_percent = idle_cost(machine, seconds=6)
    line.row("", f"scheduler, culler and agent, idle: {rss_mib} MiB, {cpu_percent} % of a core")
    lost, doubled = figures.lost_and_doubled(machine)
    return {
        "spawn_overhead_s": figures.spawn_overhead_s(machine),
        "submit_to_first_log_s": first_log_s,
        "reclaim_extra_s": reclaim_extra_s,
        "scheduler_recovery_s": recovery_s,
        "usage_to_sidebar_s": opened.usage_to_sidebar_s,
        "idle_rss_mib": rss_mib,
        "idle_cpu_percent": cpu_percent,
        "bundle_kb": figures.bundle_kb(),
        "final_metric_equal": equal,
        "lost_jobs": lost,
        "doubled_jobs": doubled,
        "culled_idle_s": culled_s,
        **kept,
    }


def play_kept(line: Timeline, machine: Machine, alice: Person, bob: Person) -> dict[str, object]:
    """D3–D10, whichever way holds on this machine; alice has a server, bob has none."""
    kept = rows_kept.Kept()
    if rows_kept.can_save(bob):
        rows_kept.notebook(line, machine, bob, kept, team="nlp")
        rows_kept.plain_script(line, machine, alice, bob, kept)
    else:
        rows_kept.variables(line, machine, bob, team="nlp")
        rows_kept.anew(line, machine, alice, bob)
    return asdict(kept) | asdict(moved_alone.play(line))


def play_kept_alone(line: Timeline, machine: Machine) -> dict[str, object]:
    """For other accounts and machines that forbid namespaces: what comes before is the same there."""
    alice, bob = (Person(machine.url, name, machine.password()) for name in ("alice", "bob"))
    answer = alice.start_server()
    check(answer.status_code in (201, 202), f"{answer.status_code} {answer.text}")
    alice.wait_until_ready()
    return play_kept(line, machine, alice, bob)


def play_by_root(line: Timeline, machine: Machine) -> dict[str, object]:
    """D3–D9 where users have accounts of their own and may make no user namespaces: root starts trees."""
    helps = [text for text in machine.cli("doctor").stdout.splitlines() if "hibernation" in text]
    check(any("started by root as its user" in text for text in helps), f"D9: doctor: {helps}")
    line.row("D9", f"doctor: “{' '.join(helps)}”")
    alice, bob = (Person(machine.url, name, machine.password()) for name in ("alice", "bob"))
    check(rows_kept.can_save(bob), "D9: the start page does not know that kernels can be saved")
    answer = alice.start_server()
    check(answer.status_code in (201, 202), f"{answer.status_code} {answer.text}")
    alice.wait_until_ready()
    kept = rows_kept.Kept()
    rows_kept.notebook(line, machine, bob, kept, team="nlp")
    rows_kept.plain_script(line, machine, alice, bob, kept)
    return asdict(kept)


def play_scripts(line: Timeline, machine: Machine, times: int) -> dict[str, object]:
    """D3–D5 alone, again and again: one wake says little of a machine on which others work."""
    alice, bob = (Person(machine.url, name, machine.password()) for name in ("alice", "bob"))
    check(rows_kept.can_save(bob), "nothing can be saved here: D4 is not played")
    # One GPU is bob's for as long as his cell runs: what he claims is not to be had beside the script.
    for person, wanted in ((alice, {}), (bob, {"milli_gpu": 1000, "team": "nlp"})):
        answer = person.start_server(**wanted)
        check(answer.status_code in (201, 202), f"{answer.status_code} {answer.text}")
        person.wait_until_ready()
    Kernel(bob).run("import time; time.sleep(3600)", wait=False)
    woken_s, load = [], []
    for _ in range(times):
        kept = rows_kept.Kept()
        load.append(round(os.getloadavg()[0], 1))
        rows_kept.plain_script(line, machine, alice, bob, kept)
        check(kept.job_steps_repeated == 0, "D4: a step was repeated")
        woken_s.append(kept.job_wake_to_log_s)
    return {"job_wake_to_log_s": woken_s, "load": load}


def _tour(
    line: Timeline,
    rows: Callable[[Timeline, Machine], dict[str, object]],
    by_root: own_accounts.Choice | None,
) -> dict[str, object]:
    began = time.monotonic()
    idle_s, warn_s = IDLE_AFTER_S, WARN_AFTER_S
    with Machine(CONFIG, idle_after_s=idle_s, warn_after_s=warn_s, by_root=by_root) as machine:
        up_s = time.monotonic() - began
        who = "trusted (--trusted-users)" if by_root is None else "accounts of this machine"
        line.row("", f"gpucommons up answers after {up_s:.1f} s; users are {who}")
        found = rows(line, machine) | {"up_s": round(up_s, 2), "rows": line.played}
    return found | {"tour_s": round(time.monotonic() - began, 1)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--kept", action="store_true", help="play rows D3–D10 alone")
    parser.add_argument(
        "--scripts", type=int, metavar="TIMES", help="play rows D3–D5 alone, so many times"
    )
    parser.add_argument(
        "--as", type=int, metavar="UID", dest="uid", help="by root: as this account"
    )
    parser.add_argument(
        "--without-user-namespaces", action="store_true", help="as where nobody may make them"
    )
    parser.add_argument(
        "--namespaces-by-root-alone", action="store_true", help="as where users may make none"
    )
    parser.add_argument(
        "--own-accounts",
        action="store_true",
        help="by root: D3–D9 alone, by users with accounts of their own, whose processes root saves",
    )
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="then D3–D10 as other accounts and where namespaces are forbidden",
    )
    return parser


def main() -> int:
    """Parse the command line and play."""
    arguments = _parser().parse_args()
    if arguments.namespaces_by_root_alone:
        forbidding_users.forbid_to_users()
    if arguments.without_user_namespaces:
        forbidding.forbid()
    if arguments.uid is not None:
        at = sys.argv.index("--as")
        return other_account.play_as(arguments.uid, sys.argv[1:at] + sys.argv[at + 2 :])
    rows = play_kept_alone if arguments.kept else play
    if arguments.scripts is not None:
        rows = partial(play_scripts, times=arguments.scripts)
    by_root = None
    if arguments.own_accounts:
        # None is for whoever sets nothing: where root makes namespaces, that is enough.
        accepts = True if arguments.without_user_namespaces else None
        rows, by_root = play_by_root, own_accounts.Choice(kernels_by_root=accepts)
    others = elsewhere.plays() if arguments.everywhere else {}
    found = played(
        lambda: _tour(Timeline(), rows, by_root) | elsewhere.play(others), arguments.json
    )
    if found is None:
        return 1
    check(found.get("final_metric_equal", True) is True, "the final metric differs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
