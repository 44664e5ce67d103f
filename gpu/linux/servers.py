"""Which processes serve notebooks: servers and their helpers; their kernels compute."""

from __future__ import annotations

from collections.abc import Sequence

_SERVER_NAMES = frozenset({
    "jupyter", "jupyterhub-singleuser", "jupyter-lab", "jupyter-labhub", "jupyter-notebook",
    "jupyter-server", "jupyterhub.singleuser", "jupyter_server", "jupyterlab",
})  # fmt: skip
_WORDS = 4
#: What such a server starts for an open page: language servers, and what looks for them.
_HELPER_NAMES = frozenset({"node", "npm", "npx"})
_HELPER_WORDS = 2
#: Where VS Code's own programs lie that are no JavaScript.
_EDITOR = "/lib/vscode/"


def is_server(command: Sequence[str]) -> bool:
    """Whether a command line is a notebook server's."""
    return any(word.rsplit("/", 1)[-1] in _SERVER_NAMES for word in command[:_WORDS])


def is_page_helper(command: Sequence[str]) -> bool:
    """Whether a command line is an editor's own: JavaScript, which no GPU runs, or a program that lies in VS Code."""
    if command and _EDITOR in command[0]:
        return True
    return any(word.rsplit("/", 1)[-1] in _HELPER_NAMES for word in command[:_HELPER_WORDS])
