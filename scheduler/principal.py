"""Who is asking: an identity, as an authenticator vouches for it, and what that means in this cluster.

An authenticator (hub token, peer credentials, attempt token) only says *who*. Which teams that is, and what
may be steered, follows from the teams as they are configured now, so a changed team takes effect
at once, cached tokens or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.types import AttemptId, TeamName, UserName
from gpucommons.scheduler.idempotency import key_of_caller

#: What our scopes begin with: ``custom:gpucommons:submit!user=ada``.
SCOPE_PREFIX = "custom:gpucommons:"
#: Each right implies those to its right.
_IMPLIED = {
    "admin": ("admin", "submit", "read"),
    "submit": ("submit", "read"),
    "read": ("read",),
    "lease": ("lease",),
}


class PrincipalKind(StrEnum):
    """Which authenticator knew somebody, and as what."""

    USER = "user"
    #: The hub's spawner, or another service of the hub.
    HUB_SERVICE = "hub-service"
    CULLER = "culler"
    #: A running attempt with its own token.
    ATTEMPT = "attempt"
    #: A process of this machine, known by its peer credentials.
    LOCAL = "local"


@dataclass(frozen=True, kw_only=True, slots=True)
class Right:
    """One scope: a verb, for everything or for one user, group or server."""

    verb: str
    #: ``user``, ``group`` or ``server``; None = unfiltered.
    filtered_by: str | None = None
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What an authenticator vouches for."""

    name: UserName
    kind: PrincipalKind
    groups: frozenset[str] = frozenset()
    rights: frozenset[Right] = frozenset()
    #: The attempt whose token this is.
    attempt_id: AttemptId | None = None
    #: The notebook server whose token this is, where the token says so ("" = the default one).
    server_name: str | None = None
    #: May read metrics by a right of its own.
    reads_metrics: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """An identity among the teams there are."""

    name: UserName
    kind: PrincipalKind
    #: Teams it belongs to.
    teams: frozenset[TeamName] = frozenset()
    #: Teams it leads: it sees and steers everything of these.
    leads: frozenset[TeamName] = frozenset()
    admin: bool = False
    rights: frozenset[Right] = frozenset()
    attempt_id: AttemptId | None = None
    server_name: str | None = None
    reads_metrics: bool = False
    #: Our own, whom no authenticator knows: its keys are apart from those of users who are called so.
    is_part: bool = False

    def holds(self, verb: str, *, user: str | None = None) -> bool:
        """Whether its scopes allow the verb for things of this user (default: its own)."""
        whose = self.name if user is None else user
        return any(right.verb == verb and _covers(right, whose, self.name) for right in self.rights)

    def stored_key(self, key: str) -> str:
        """Its idempotency key as it is stored."""
        return key if self.is_part else key_of_caller(self.name, key)

    @property
    def sees(self) -> frozenset[TeamName]:
        """Teams of which it sees everything."""
        return self.teams | self.leads


def _covers(right: Right, whose: str, self_name: str) -> bool:
    if right.filtered_by is None:
        return True
    if right.filtered_by == "user":
        return right.value == whose
    if right.filtered_by == "server":
        return right.value.partition("/")[0] == whose
    # A group's filter says "for members of the group": the hub gave the scope to this very user.
    return right.filtered_by == "group" and whose == self_name


def read_rights(scopes: Iterable[str]) -> frozenset[Right]:
    """Our rights among a token's scopes, with what they imply.

    Admin filtered by user means nothing here and gives nothing.
    """
    rights: set[Right] = set()
    for scope in scopes:
        if not scope.startswith(SCOPE_PREFIX):
            continue
        verb, _, filter_text = scope.removeprefix(SCOPE_PREFIX).partition("!")
        filtered_by, _, value = filter_text.partition("=")
        if verb == "admin" and filtered_by in ("user", "server"):
            continue
        rights.update(
            Right(verb=implied, filtered_by=filtered_by or None, value=value)
            for implied in _IMPLIED.get(verb, ())
        )
    return frozenset(rights)


def hub_groups_of(team: Team) -> frozenset[str]:
    """Hub groups whose members belong to the team; without any, the group of the same name."""
    return team.groups or frozenset({team.name})


def member_teams(
    name: str, groups: frozenset[str], teams: Mapping[TeamName, Team]
) -> frozenset[TeamName]:
    """The teams of a user."""
    return frozenset(
        team.name
        for team in teams.values()
        if name in team.members or not groups.isdisjoint(hub_groups_of(team))
    )


def resolve(identity: Identity, teams: Mapping[TeamName, Team]) -> Principal:
    """What an identity means among these teams."""
    is_person = identity.kind in (PrincipalKind.USER, PrincipalKind.LOCAL)
    return Principal(
        name=identity.name,
        kind=identity.kind,
        teams=member_teams(identity.name, identity.groups, teams) if is_person else frozenset(),
        leads=_led_teams(identity, teams) if is_person else frozenset(),
        admin=any(r.verb == "admin" and r.filtered_by is None for r in identity.rights),
        rights=identity.rights,
        attempt_id=identity.attempt_id,
        server_name=identity.server_name,
        reads_metrics=identity.reads_metrics,
    )


def _led_teams(identity: Identity, teams: Mapping[TeamName, Team]) -> frozenset[TeamName]:
    """Named as a lead, or admin of one of its groups; a department's lead leads its teams."""
    admin_groups = {
        r.value for r in identity.rights if r.verb == "admin" and r.filtered_by == "group"
    }
    led = {
        team.name
        for team in teams.values()
        if identity.name in team.leads or not admin_groups.isdisjoint(hub_groups_of(team))
    }
    return frozenset(
        team.name for team in teams.values() if not led.isdisjoint(_line_of(team, teams))
    )


def _line_of(team: Team, teams: Mapping[TeamName, Team]) -> set[TeamName]:
    """The team and its parents; a cycle, which saving refuses, ends the walk."""
    line: set[TeamName] = set()
    name: TeamName | None = team.name
    while name is not None and name not in line:
        line.add(name)
        name = teams[name].parent if name in teams else None
    return line


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """Whose things somebody sees: those of these teams, and one owner's. All where ``teams`` is None."""

    teams: frozenset[TeamName] | None = None
    owner: UserName | None = None

    def sees(self, team: TeamName, owner: UserName) -> bool:
        """Whether something of this team and owner is among them."""
        return self.teams is None or team in self.teams or owner == self.owner
