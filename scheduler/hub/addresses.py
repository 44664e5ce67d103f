"""Addresses in JupyterHub's REST API.

A hub takes any name for a server, also ``.`` and ``..``, which clients and proxies take for a way through
the address: such a server would be stopped in vain, and all of its user's be meant.
"""

from __future__ import annotations

from urllib.parse import quote


def address_of_user(user: str) -> str:
    """Where the hub tells of a user."""
    return f"/users/{_segment(user)}"


def address_of_server(user: str, server_name: str) -> str:
    """Where the hub starts and stops a server; the one without a name is the default server."""
    if not server_name:
        return f"{address_of_user(user)}/server"
    return f"{address_of_user(user)}/servers/{_segment(server_name)}"


def _segment(name: str) -> str:
    """A name as one segment of an address; dots alone are written in full, so that nobody follows them."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
