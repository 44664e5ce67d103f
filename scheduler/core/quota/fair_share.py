"""How much of the surplus each team has had, so that the next GPU goes to whom it is due.

Borrowed GPU time decays: what was used a half-life ago counts half (the pool says how long that
is). A team's standing is its decayed use plus what its present holdings will add, divided by its
weight; the lowest goes first. Departments are compared first, with everything below them, and teams
inside the same department after that: what one team of a department leaves, its sisters get.

Time-based shares by decayed use follow the idea of Kay and Lauder, "A fair share scheduler" (1988),
and of the half-life in Slurm's multifactor priority. Everything is an integer, so the order is the
same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.resources import Pool, Team
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.core.quota.quota import NO_USE, Uses, leaves, quota_of

#: After so many half-lives nothing older matters.
_FORGOTTEN = 40
#: Resolution of a standing after division by the weight.
_SCALE = 1000
#: The part of a half-life for which one team may be behind before it takes its turn from another.
#: With two teams that each need everything, each turn is then half a half-life: as short as it can
#: be with one eviction per job and half-life, and over twelve half-lives nobody is 5 % behind.
TURN = 4

#: Looks per half-life at who may claim a share. Between them, time alone is no reason to decide.
LOOKS = 16

Usage = Mapping[tuple[TeamName, PoolName], int]
Teams = Mapping[TeamName, Team]


def decayed(use: int, borrowed_milli_gpu: int, elapsed_ms: int, half_life_ms: int) -> int:
    """Use after some time during which so much was borrowed, in milli-GPU·seconds.

    Within a half-life the decay is linear, over several it is exponential.
    """
    if elapsed_ms > _FORGOTTEN * half_life_ms:
        use, elapsed_ms = 0, _FORGOTTEN * half_life_ms
    while elapsed_ms > 0:
        step = min(elapsed_ms, half_life_ms)
        use -= use * step // (2 * half_life_ms)
        use += borrowed_milli_gpu * step * (4 * half_life_ms - step) // (4 * half_life_ms * 1000)
        elapsed_ms -= step
    return use


def half_life_of(pools: Mapping[PoolName, Pool], pool: PoolName) -> int:
    """How long a pool remembers; its default where it is gone."""
    return pools[pool].half_life_ms if pool in pools else Pool(name=pool).half_life_ms


def looked_at_ms(now_ms: int, half_life_ms: int) -> int:
    """When was last looked at whose turn it is."""
    every = max(1, half_life_ms // LOOKS)
    return now_ms // every * every


def brought_up(
    usage: Usage,
    uses: Uses,
    pools: Mapping[PoolName, Pool],
    at_ms: Millis,
    now_ms: Millis,
) -> dict[tuple[TeamName, PoolName], int]:
    """Usage as of now, given what was borrowed since it was last written down."""
    keys = usage.keys() | {key for key, use in uses.items() if use.borrowed}
    found = {
        key: decayed(
            usage.get(key, 0),
            uses[key].borrowed if key in uses else 0,
            max(0, now_ms - at_ms),
            half_life_of(pools, key[1]),
        )
        for key in sorted(keys)
    }
    return {key: use for key, use in found.items() if use}


def standing(usage: int, borrowed_milli_gpu: int, weight: int, half_life_ms: int) -> int:
    """A place in line for the surplus: the lower, the earlier. Weight 0 never borrows."""
    coming = borrowed_milli_gpu * half_life_ms // 1000
    return (usage + coming) * _SCALE // max(1, weight)


@dataclass(frozen=True, slots=True)
class Account:
    """What a team, or all teams of a department together, had and have of a pool's surplus."""

    usage: int
    borrowed: int
    weight: int
    #: Milli-CPU that its work without a GPU holds.
    cpu_milli: int = 0


@dataclass(frozen=True, slots=True)
class Accounts:
    """The surplus of one pool, by team and department. What was asked once is remembered."""

    teams: Teams
    pool: PoolName
    half_life_ms: int
    usage: Usage
    uses: Uses
    _accounts: dict[TeamName, Account] = field(default_factory=dict, compare=False)
    _lines: dict[TeamName, tuple[int, ...]] = field(default_factory=dict, compare=False)
    _budgets: dict[tuple[TeamName, int], dict[TeamName, int]] = field(
        default_factory=dict, compare=False
    )

    def after(self, uses: Uses) -> Accounts:
        """The same accounts when teams hold something else: only theirs are added up anew."""
        changed = {
            team
            for (team, pool) in self.uses.keys() | uses.keys()
            if pool == self.pool and self.uses.get((team, pool)) != uses.get((team, pool))
        }
        above = {one for team in changed for one in path_to(self.teams, team)}
        found = evolve(self, uses=uses, _accounts={}, _lines={}, _budgets={})
        found._accounts.update((t, known) for t, known in self._accounts.items() if t not in above)
        found._lines.update(
            (team, line)
            for team, line in self._lines.items()
            if above.isdisjoint(path_to(self.teams, team))
        )
        return found

    def of(self, team: TeamName) -> Account:
        """One team, or a department with everything below it."""
        found = self._accounts.get(team)
        if found is None:
            found = self._accounts[team] = self._add_up(team)
        return found

    def _add_up(self, team: TeamName) -> Account:
        usage = borrowed = weight = cpu_milli = 0
        for leaf in leaves(self.teams, team):
            key = (leaf, self.pool)
            usage += self.usage.get(key, 0)
            use = self.uses.get(key, NO_USE)
            borrowed, cpu_milli = borrowed + use.borrowed, cpu_milli + use.cpu_milli
            weight += quota_of(self.teams, *key).over_quota_weight
        return Account(usage, borrowed, max(1, weight), cpu_milli)

    def line(self, team: TeamName) -> tuple[int, ...]:
        """Standings from the department down to the team: in this order they are compared."""
        found = self._lines.get(team)
        if found is None:
            accounts = [self.of(one) for one in path_to(self.teams, team)]
            found = self._lines[team] = tuple(
                standing(one.usage, one.borrowed, one.weight, self.half_life_ms) for one in accounts
            )
        return found

    def line_without_gpu(self, team: TeamName) -> tuple[int, ...]:
        """Processors held for the weight, from the department down to the team.

        Only what is held counts: nobody is stopped for processors, so nothing is owed later.
        """
        accounts = [self.of(one) for one in path_to(self.teams, team)]
        return tuple(one.cpu_milli * _SCALE // one.weight for one in accounts)

    def budget(self, claimant: TeamName, need_milli_gpu: int) -> dict[TeamName, int]:
        """How much of what each team borrows a claimant may take for its share, in milli-GPU.

        Departments are compared where they part from the claimant's. Who had most loses first.
        """
        key = (claimant, need_milli_gpu)
        if key not in self._budgets:
            self._budgets[key] = self._shared_out(claimant, need_milli_gpu)
        return self._budgets[key]

    def is_a_turn_ahead(
        self, team: TeamName, more_milli_gpu: int, other: TeamName, need_milli_gpu: int
    ) -> bool:
        """With so much more a team would borrow more for its weight, and another's turn has come."""
        ours, theirs = _where_they_part(self.teams, other, team)
        if ours == theirs:
            return False
        us, them = self.of(ours), self.of(theirs)
        more = us.borrowed * them.weight < (them.borrowed + more_milli_gpu) * us.weight
        return more and _turn_has_come(us, them, need_milli_gpu, self.half_life_ms)

    def _shared_out(self, claimant: TeamName, need_milli_gpu: int) -> dict[TeamName, int]:
        found: dict[TeamName, int] = {}
        left: dict[TeamName, int] = {}
        borrowers = [
            team
            for (team, pool), use in self.uses.items()
            if pool == self.pool and use.borrowed > 0
        ]
        for other in sorted(borrowers, key=lambda team: (*(-one for one in self.line(team)), team)):
            ours, theirs = _where_they_part(self.teams, claimant, other)
            if ours == theirs:
                continue
            if theirs not in left:
                left[theirs] = _may_lose(
                    self.of(ours), self.of(theirs), need_milli_gpu, self.half_life_ms
                )
            found[other] = min(left[theirs], self.uses[other, self.pool].borrowed)
            left[theirs] -= found[other]
        return found


def _may_lose(us: Account, them: Account, need_milli_gpu: int, half_life_ms: int) -> int:
    """What others may lose to us: so much that they still borrow no less for their weight than we.

    Unless we have had more so far: then nothing; or they so much more that it is our turn: then
    all of it.
    """
    ahead = them.usage * us.weight - us.usage * them.weight
    if ahead < 0:
        return 0
    if us.borrowed * them.weight < them.borrowed * us.weight and _turn_has_come(
        us, them, need_milli_gpu, half_life_ms
    ):
        return them.borrowed
    least = -(-(us.borrowed + need_milli_gpu) * them.weight // us.weight)
    return max(0, them.borrowed - least)


def _turn_has_come(us: Account, them: Account, need_milli_gpu: int, half_life_ms: int) -> bool:
    """They have had so much more for their weight that it is our turn."""
    ahead = them.usage * us.weight - us.usage * them.weight
    return ahead >= need_milli_gpu * half_life_ms // (TURN * 1000) * them.weight


def path_to(teams: Teams, team: TeamName) -> tuple[TeamName, ...]:
    """Departments above a team, the topmost first, and the team itself."""
    known = teams.get(team)
    if known is None or known.parent is None:
        return (team,)
    found = [team]
    while True:
        known = teams.get(found[-1])
        parent = None if known is None else known.parent
        if parent is None or parent in found:
            return tuple(reversed(found))
        found.append(parent)


def _where_they_part(teams: Teams, one: TeamName, other: TeamName) -> tuple[TeamName, TeamName]:
    ours, theirs = path_to(teams, one), path_to(teams, other)
    for mine, yours in zip(ours, theirs, strict=False):
        if mine != yours:
            return mine, yours
    return ours[-1], theirs[-1]
