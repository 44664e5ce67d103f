"""What a notebook server is told from outside: its scheduler, lease and account; nothing where it is alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerContext:
    """What the spawner tells a notebook server; everything may be missing."""

    #: The scheduler; "" = there is none.
    url: str = ""
    #: The server's own token. Never leaves this process.
    token: str = ""
    lease_id: str = ""
    slice_socket: str = ""
    #: Whose server it is; "" outside a hub.
    owner: str = ""
    server_name: str = ""
    #: Users share one operating-system account: nothing isolates them.
    shared_account: bool = False
    #: What the page that started it calls its environment; "" = not known.
    environment_name: str = ""
    #: How long a server that is told to stop may take, after which it is killed; None = not known.
    stop_seconds: int | None = None
    #: Kernels are killed with it, so what is not saved by then is lost.
    stop_ends_kernels: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read the variables that spawner and hub set."""
        return cls(
            url=environ.get("GPUCOMMONS_URL", ""),
            token=environ.get("JUPYTERHUB_API_TOKEN", ""),
            lease_id=environ.get("GPUCOMMONS_LEASE_ID", ""),
            slice_socket=environ.get("GPUCOMMONS_SLICE_SOCKET", ""),
            owner=environ.get("JUPYTERHUB_USER", ""),
            server_name=environ.get("JUPYTERHUB_SERVER_NAME", ""),
            shared_account=environ.get("GPUCOMMONS_SHARED_ACCOUNT") == "1",
            environment_name=environ.get("GPUCOMMONS_ENVIRONMENT", ""),
            stop_seconds=_seconds(environ.get("GPUCOMMONS_STOP_SECONDS", "")),
            stop_ends_kernels=environ.get("GPUCOMMONS_STOP_ENDS_KERNELS") == "1",
        )

    @property
    def kernels_killed_s(self) -> int | None:
        """So long after the word to stop kernels are killed with the server; None where they go on alone."""
        return self.stop_seconds if self.stop_ends_kernels else None

    def __repr__(self) -> str:
        """Without the token."""
        return f"ServerContext(url={self.url!r}, owner={self.owner!r}, server_name={self.server_name!r})"


def _seconds(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
