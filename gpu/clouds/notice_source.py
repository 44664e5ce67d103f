"""What is known of a node's cloud, and where its word comes from, without the means to ask for it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

#: Clouds whose notices can be read.
NAMES = ("aws", "azure", "gcp")
#: The address of AWS', Google's and Azure's, where nothing else is said.
LINK_LOCAL = "http://169.254.169.254"
#: Their addresses in networks with IPv6 alone.
_BY_IPV6 = frozenset({"fd00:ec2::254", "fd20:ce::254"})


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudNotice:
    """What a cloud says of a node now."""

    #: When it takes it back; None = it says nothing of that.
    leaves_ms: int | None = None
    #: It may take it back soon: nothing new should start there.
    at_risk: bool = False


def host_and_port(url: str) -> tuple[str, int]:
    """Read the address of a metadata service.

    Raises
    ------
    ValueError
        When it is none: only addresses of this machine and its link are.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        address = ipaddress.ip_address(host)
        is_near = address.is_link_local or address.is_loopback or host in _BY_IPV6
    except ValueError:
        is_near = False
    if not is_near or parts.scheme != "http" or parts.path.strip("/") or parts.username is not None:
        message = f"{url!r} is no metadata service: write a link-local address, as in {LINK_LOCAL}."
        raise ValueError(message)
    return host, port
