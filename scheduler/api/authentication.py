"""From a request's credentials to an identity. Only ``Authorization`` and a socket's peer count.

Cookies are never looked at, so no page of another origin can act in somebody's name. Answers of
the hub are remembered for seconds at most, and not at all where an admin is about to write.
"""

from __future__ import annotations

import hashlib
import hmac
import pwd
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpucommons.gpu.account_names import USERNAME, user_of_account
from gpucommons.scheduler.core.model.types import AttemptId, UserName
from gpucommons.scheduler.errors import NotAuthenticated, Unavailable
from gpucommons.scheduler.hub.hub import Hub, HubUser
from gpucommons.scheduler.principal import Identity, PrincipalKind, Right, read_rights
from gpucommons.scheduler.service.in_memory.refused_reports import RefusedReports

#: An answer of the hub is believed for so long.
KNOWN_FOR_MS = 30_000
#: So is its word that a token is unknown: a new token may be seconds old.
UNKNOWN_FOR_MS = 3_000
#: A service that the hub knew is believed for so long after it last answered anybody: a hub that goes down
#: ends its users' servers, and their leases with them, of which its spawner may not have spoken for hours.
SERVICE_KNOWN_FOR_MS = 300_000
_REMEMBERED = 10_000
_SCHEMES = ("token", "bearer")
#: What can stand in a header, and is not longer than any token there is.
_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")
_METRICS_SCOPE = "read:metrics"
_SERVER_SCOPE = "access:servers!server="


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """What a request brings along."""

    #: From ``Authorization: token …`` or ``Bearer …``.
    token: str | None = None
    #: User id of the process at the other end of the unix socket.
    peer_uid: int | None = None
    #: Believe no remembered answer.
    fresh: bool = False


class Authenticator(Protocol):
    """Finds out who is asking."""

    async def identify(self, credentials: Credentials) -> Identity | None:
        """The identity, or None when these credentials are another one's to know."""
        ...


def read_token(authorization: str | None) -> str | None:
    """The token of an ``Authorization`` header; None without one.

    Raises
    ------
    NotAuthenticated
        When there is a header, but not of a form we take.
    """
    if authorization is None:
        return None
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() not in _SCHEMES or _TOKEN.fullmatch(token) is None:
        message = "Write the header as `Authorization: token <your JupyterHub token>`."
        raise NotAuthenticated(message)
    return token


class FirstAuthenticator:
    """Several authenticators, asked in order; the first that knows the credentials answers."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def identify(self, credentials: Credentials) -> Identity | None:
        """See :class:`Authenticator`."""
        for authenticator in self._authenticators:
            identity = await authenticator.identify(credentials)
            if identity is not None:
                return identity
        return None


class AttemptAuthenticator:
    """Tokens of running attempts, derived from a key that only the scheduler knows."""

    def __init__(
        self,
        attempt_of: Callable[[str], AttemptId | None],
        *,
        prefix: str,
        refused: RefusedReports,
    ) -> None:
        self._attempt_of = attempt_of
        self._prefix = prefix
        self._refused = refused

    async def identify(self, credentials: Credentials) -> Identity | None:
        """See :class:`Authenticator`. Whether the attempt is current is decided at each report."""
        token = credentials.token
        if token is None or not token.startswith(self._prefix):
            return None
        attempt_id = self._attempt_of(token)
        if attempt_id is None:
            self._refused.refused(token.removeprefix(self._prefix).partition(".")[0])
            message = "This attempt token is not valid."
            raise NotAuthenticated(message)
        self._refused.taken(attempt_id)
        return Identity(
            name=UserName(f"attempt {attempt_id}"),
            kind=PrincipalKind.ATTEMPT,
            attempt_id=attempt_id,
        )


class MetricsAuthenticator:
    """The fixed token for a Prometheus on the same machine; it opens ``/metrics`` alone."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def identify(self, credentials: Credentials) -> Identity | None:
        """See :class:`Authenticator`."""
        token = (credentials.token or "").encode()
        if not hmac.compare_digest(token, self._token):
            return None
        return Identity(
            name=UserName("metrics"), kind=PrincipalKind.HUB_SERVICE, reads_metrics=True
        )


#: What accounts are called that are no user's: no user of the hub may be one of them.
_NUMBERED = re.compile(r"uid-[0-9]+")


class PeerAuthenticator:
    """Processes of this machine at the unix socket; the one who runs the scheduler is admin.

    Where accounts are called otherwise than the hub's users (``account_template``), one that is called as a
    user is not that user's, the operator's own included.
    """

    def __init__(self, *, operator_uid: int, account_template: str = USERNAME) -> None:
        self._operator_uid = operator_uid
        self._account_template = account_template

    async def identify(self, credentials: Credentials) -> Identity | None:
        """See :class:`Authenticator`. A token, where there is one, counts instead."""
        uid = credentials.peer_uid
        if uid is None or credentials.token is not None:
            return None
        is_operator = uid in (0, self._operator_uid)
        verb = "admin" if is_operator else "submit"
        implied = read_rights([f"custom:gpucommons:{verb}"])
        name = user_of(uid, self._account_template)
        return Identity(name=name, kind=PrincipalKind.LOCAL, rights=implied)


def user_of(uid: int, account_template: str) -> UserName:
    """Whose account it is, or a name made of its number where it is no user's."""
    try:
        found = user_of_account(account_template, pwd.getpwuid(uid).pw_name)
    except KeyError:
        found = None
    return UserName(found or f"uid-{uid}")


@dataclass(frozen=True, slots=True)
class _Remembered:
    identity: Identity | None
    until_ms: int


class HubAuthenticator:
    """Tokens of JupyterHub, resolved by the hub."""

    def __init__(
        self, hub: Hub, *, now_ms: Callable[[], int], culler: str = "gpucommons-culler"
    ) -> None:
        self._hub = hub
        self._now_ms = now_ms
        self._culler = culler
        self._known: OrderedDict[bytes, _Remembered] = OrderedDict()
        #: When it last answered, whoever's token it was.
        self._heard_ms = 0

    async def identify(self, credentials: Credentials) -> Identity | None:
        """See :class:`Authenticator`."""
        token = credentials.token
        if token is None:
            return None
        # Not the token itself: memory that leaks must not give tokens away.
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        found = self._known.get(key)
        if found is not None and not credentials.fresh and self._now_ms() < found.until_ms:
            return found.identity
        try:
            user = await self._hub.owner_of(token)
        except Unavailable:
            if found is None or credentials.fresh or not self._still_service(found):
                raise
            return found.identity
        self._heard_ms = self._now_ms()
        identity = None
        if user is not None and not _NUMBERED.fullmatch(user.name):
            identity = identity_of(user, culler=self._culler)
        span_ms = UNKNOWN_FOR_MS if identity is None else KNOWN_FOR_MS
        self._known[key] = _Remembered(identity, self._now_ms() + span_ms)
        self._known.move_to_end(key)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return identity

    def _still_service(self, found: _Remembered) -> bool:
        """A service, whose token is fixed, of a hub that was there a moment ago."""
        if found.identity is None or found.identity.kind is not PrincipalKind.HUB_SERVICE:
            return False
        return self._now_ms() < self._heard_ms + SERVICE_KNOWN_FOR_MS


def identity_of(user: HubUser, *, culler: str) -> Identity:
    """What the hub's description of a token's owner means here."""
    rights = read_rights(user.scopes)
    return Identity(
        name=UserName(user.name),
        kind=_kind_of(user, rights, culler),
        groups=user.groups,
        rights=rights,
        server_name=_server_of(user),
        reads_metrics=_METRICS_SCOPE in user.scopes,
    )


def _kind_of(user: HubUser, rights: frozenset[Right], culler: str) -> PrincipalKind:
    if not user.is_service:
        return PrincipalKind.USER
    leases = any(right.verb == "lease" for right in rights)
    return PrincipalKind.CULLER if leases and user.name == culler else PrincipalKind.HUB_SERVICE


def _server_of(user: HubUser) -> str | None:
    """The server a token was made for, told by the one server it may access."""
    servers = [s.removeprefix(_SERVER_SCOPE) for s in user.scopes if s.startswith(_SERVER_SCOPE)]
    if len(servers) != 1:
        return None
    owner, _, name = servers[0].partition("/")
    return name if owner == user.name else None
