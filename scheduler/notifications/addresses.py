"""Where a webhook may lead: an address of a user must not reach what only this machine can reach.

The name is looked up once, each address that it has is checked, and the connection goes to one of
those: a name that means another machine a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpucommons.scheduler.errors import BadRequest, Unavailable
from gpucommons.scheduler.notifications.settings import WebhookSettings

_MOST_CHARACTERS = 500
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: What Python takes for the world, at least in some releases, and what is of this machine or its cloud.
_INSIDE = tuple(
    ipaddress.ip_network(one)
    for one in (
        "192.0.0.0/24",  # Oracle Cloud's metadata
        "168.63.129.16/32",  # Azure's WireServer
        "192.88.99.0/24",  # relays of 6to4
        "::/96",  # IPv4 as it was once written
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b:1::/48",  # NAT64 of a site of its own
        "100:0:0:1::/64",
        "2001::/23",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",  # a site's own; QEMU's host
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A webhook's address, taken apart."""

    tls: bool
    host: str
    port: int
    #: With the query.
    path: str


def read_target(url: str, settings: WebhookSettings) -> Target:
    """Take an address apart that a user gave.

    Raises
    ------
    BadRequest
        When it is none, or not allowed as it stands.
    """
    if len(url) > _MOST_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url:
        message = f"An address has at most {_MOST_CHARACTERS} plain characters: https://host/path."
        raise BadRequest(message)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequest("That is no address for a webhook: write it as https://host/path.")
    if parts.scheme == "http" and not settings.http:
        raise BadRequest("Webhooks without TLS are not allowed here: use https, or ask your admin.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise BadRequest(
            "An address of a webhook holds no login and no #: messages are signed, check that instead."
        )
    try:
        literal = ipaddress.ip_address(parts.hostname)
    except ValueError:
        literal = None
    if literal is not None:
        check(literal, settings)
    tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(tls=tls, host=parts.hostname, port=port or (443 if tls else 80), path=path)


def resolve(target: Target, settings: WebhookSettings) -> Address:
    """The address to connect to.

    Raises
    ------
    BadRequest
        When one that the name has is not to be reached from here.
    Unavailable
        When the name has none.
    """
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        message = f"{target.host} was not found."
        raise Unavailable(message) from None
    # A zone such as fe80::1%eth0 is no address of the world either.
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    for address in addresses:
        check(address, settings)
    return addresses[0]


def check(address: Address, settings: WebhookSettings) -> None:
    """Refuse what only this machine and its neighbours reach, unless the admin allows it.

    Raises
    ------
    BadRequest
        Without the address: whoever asks learns nothing of the network.
    """
    plain = _plain(address)
    if any(plain in network for network in settings.allow):
        return
    is_inside = any(plain in network for network in _INSIDE)
    if is_inside or not plain.is_global or plain.is_multicast:
        raise BadRequest(
            "This host is inside of this site's own network, where webhooks may not go: use a public"
            " one, or ask your admin to allow it."
        )


def _plain(address: Address) -> Address:
    """Of IPv4 that comes as IPv6, what it stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        nat64 = ipaddress.ip_network("64:ff9b::/96")
        isatap = (int(address) >> 32 & 0xFDFFFFFF) == 0x00005EFE  # noqa: PLR2004 - RFC 5214, 6.1
        if inner is None and (address in nat64 or isatap):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address
