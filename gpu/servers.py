"""Which processes are notebook servers: they serve pages, their kernels compute."""

from __future__ import annotations

from collections.abc import Sequence

_SERVER_NAMES = frozenset({
    "jupyter", "jupyterhub-singleuser", "jupyter-lab", "jupyter-labhub", "jupyter-notebook",
    "jupyter-server", "jupyterhub.singleuser", "jupyter_server", "jupyterlab",
})  # fmt: skip
_WORDS = 4


def is_server(command: Sequence[str]) -> bool:
    """Whether a command line is a notebook server's."""
    return any(word.rsplit("/", 1)[-1] in _SERVER_NAMES for word in command[:_WORDS])
