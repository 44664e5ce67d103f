"""Which processes serve notebooks: servers and their helpers; their kernels compute."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

_SERVER_NAMES = frozenset({
    "jupyter", "jupyterhub-singleuser", "jupyter-lab", "jupyter-labhub", "jupyter-notebook",
    "jupyter-server", "jupyterhub.singleuser", "jupyter_server", "jupyterlab",
})  # fmt: skip
_WORDS = 4
#: What runs JavaScript. The first word may be an interpreter's, where it was installed by a wrapper.
_SCRIPT_NAMES = frozenset({"node", "npm", "npx"})
_SCRIPT_WORDS = 2
#: What is run by it stands here or before.
_PROGRAM_WORDS = 3
_EDITOR_NAMES = frozenset({"code-server", "openvscode-server"})
#: What packages of language servers are called.
_LANGUAGE_SERVERS = ("language-server", "languageserver", "langserver")
#: By these words jupyter-lsp looks for such packages.
_LOOKING = ("npm", "prefix", "-g")
#: Where Debian's package puts it, whose program in the PATH is no link into it.
_PACKAGED = "/usr/lib/code-server"
#: VS Code's own folder has this file; code-server has that folder in its own.
_MARKS = ("product.json", "lib/vscode/product.json")


def is_server(command: Sequence[str]) -> bool:
    """Whether a command line is a notebook server's."""
    return any(_name(word) in _SERVER_NAMES for word in command[:_WORDS])


def is_page_helper(command: Sequence[str], editors: Sequence[str]) -> bool:
    """Whether a command line that a server started serves an open page: an editor's or a language server's.

    Anybody's own server may be JavaScript, too, behind jupyter-server-proxy: that is work. ``editors`` are
    their folders, see :func:`editor_folders`.
    """
    if command and _is_below(command[0], editors):
        return True
    if not _is_script(command):
        return False
    words = command[:_PROGRAM_WORDS]
    return tuple(map(_name, command[-len(_LOOKING) :])) == _LOOKING or any(
        _name(word) in _EDITOR_NAMES
        or _is_below(word, editors)
        or any(name in word for name in _LANGUAGE_SERVERS)
        for word in words
    )


def is_editors_own(command: Sequence[str], editors: Sequence[str]) -> bool:
    """Whether an editor started this for itself: JavaScript, which no GPU runs, or a program that lies in it."""
    return _is_script(command) or (bool(command) and _is_below(command[0], editors))


def editor_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where the VS Code lies that Lab's tile starts, also where it is not installed yet."""
    asked = environ.get("CODE_EXECUTABLE", "code-server")
    found = shutil.which(asked, path=environ.get("PATH", os.defpath))
    above = Path(found).resolve().parents if found else ()
    folder = next((one for one in above if any((one / file).is_file() for file in _MARKS)), None)
    return (_PACKAGED,) if folder is None else (_PACKAGED, str(folder))


def _is_script(command: Sequence[str]) -> bool:
    return any(_name(word) in _SCRIPT_NAMES for word in command[:_SCRIPT_WORDS])


def _is_below(word: str, folders: Sequence[str]) -> bool:
    return any(word == folder or word.startswith(f"{folder}/") for folder in folders)


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]
