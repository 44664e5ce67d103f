"""Reads an admin's file, shows the difference, and writes only when told to.

A values file of Zero to JupyterHub, the ``jupyterhub_config.py`` of a hub on this machine, or the folder of
The Littlest JupyterHub.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.scheduler.cli.install import changes, littlest, python_config, values_file
from gpucommons.scheduler.cli.present import printable
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.files.durable_files import write_again, write_whole

_MAX_BYTES = 4 << 20
_TLJH, _UNITS = Path("/opt/tljh"), Path("/etc/systemd/system")
_NEXT = """
Next, with the names of your hub's release and namespace in place of HUB:
  helm upgrade --install gpucommons deploy/helm/gpucommons -n {namespace} --create-namespace -f OUR-VALUES.yaml
  helm upgrade HUB jupyterhub/jupyterhub -n HUB -f {file}
  kubectl label namespace HUB gpucommons.io/guarded=true
"""
_CHANGED_MEANWHILE = "What is ours is out of the file, and what stood in its place is back; what was changed meanwhile stays."
_LEFT_IN_CLUSTER = (
    "Not undone by that: our own release and what it keeps (helm uninstall gpucommons says what), and the label"
    " gpucommons.io/guarded of the hub's namespace."
)
_NOTHING = "Nothing of GPU Commons is in this file."
_UNDONE_BESIDE = (
    "Our lines are out; all else is as it was. Then restart the hub, once the notebooks of before have ended:"
    " their tokens carry scopes of ours.",
    "Not undone by that: `gpucommons up` (stop it) and its folder with quotas, history and jobs' files.",
)
_WHY_BESIDE = (
    "Spawner, services, roles and pages. What stands above stays; what you write below wins. The hub"
    " starts without GPU Commons, too, and then says so."
)
_NEXT_BESIDE = """
Next, as the account that runs the hub, and kept running (deploy/systemd has a unit):
  gpucommons up --beside-hub http://127.0.0.1:8081/hub/api --state {state} --config TEAMS.yaml
then restart the hub. 8081 is where a hub's API listens unless hub_port or hub_bind_url says otherwise.
"""


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], _shared: argparse.ArgumentParser
) -> None:
    """Add ``install``."""
    command = commands.add_parser(
        "install",
        help="what the configuration of your hub needs: show, write or undo it",
        description="Show as a diff what a values file of Zero to JupyterHub, or a jupyterhub_config.py,"
        " needs so that its hub gives GPUs, and why. Nothing is written without --apply or --undo, and no cluster is asked."
        " The diff shows the lines around each change, too: look for secrets in it before you pass it on.",
    )
    file = command.add_mutually_exclusive_group(required=True)
    file.add_argument("--values", type=Path, metavar="FILE.yaml", help="of Zero to JupyterHub")
    about = "a jupyterhub_config.py; it is read and never run"
    file.add_argument("--config", type=Path, metavar="FILE.py", help=about)
    about = (
        "where The Littlest JupyterHub is (default: %(const)s); files are added, none is changed"
    )
    file.add_argument("--tljh", type=Path, nargs="?", const=_TLJH, metavar="FOLDER", help=about)
    about = "with --tljh: where systemd looks for an admin's files (default: %(default)s)"
    command.add_argument("--units", type=Path, default=_UNITS, help=about)
    about = "with --config or --tljh: the folder of `gpucommons up` (default: %(default)s)"
    command.add_argument("--state", type=Path, default=Path("/var/lib/gpucommons"), help=about)
    command.add_argument("--hub-image", metavar="NAME:TAG", help="the hub's, with our package")
    command.add_argument("--notebook-image", default="", metavar="NAME:TAG", help="the notebooks'")
    command.add_argument("--namespace", default="gpucommons", help="of our release")
    done = command.add_mutually_exclusive_group()
    done.add_argument("--apply", action="store_true", help="write it into the file")
    done.add_argument("--undo", action="store_true", help="take it out of the file again")
    command.set_defaults(run=install)


def install(arguments: argparse.Namespace) -> int:
    """Show the difference; write it with ``--apply``, take it back with ``--undo``."""
    if arguments.tljh:
        return _in_littlest(arguments)
    path = arguments.values or arguments.config
    text = _read(path)
    after, said, following = (_in_values if arguments.values else _in_config)(text, arguments)
    sys.stdout.write("".join(_diff(text, after, path)))
    sys.stdout.writelines(printable(line) + "\n" for line in said)
    if after != text and (arguments.apply or arguments.undo):
        _write(path, after)
        sys.stdout.write(f"{path} is written.\n")
    elif after != text:
        sys.stdout.write("Nothing is written: do it with --apply.\n")
    if not arguments.undo:
        sys.stdout.write(following)
    return 0


def _in_values(text: str, arguments: argparse.Namespace) -> tuple[str, list[str], str]:
    """The values afterwards, what is said of them, and what comes next."""
    after, said = _undone(text) if arguments.undo else _applied(text, arguments)
    return after, said, _NEXT.format(namespace=arguments.namespace, file=arguments.values)


def _in_config(text: str, arguments: argparse.Namespace) -> tuple[str, list[str], str]:
    """The same of a hub's own Python file."""
    state = arguments.state.expanduser().absolute()
    if arguments.undo:
        after = python_config.undone(text)
        return after, [*(_UNDONE_BESIDE if after != text else [_NOTHING])], ""
    after = python_config.applied(text, state)
    said = [_WHY_BESIDE if after != text else "The file has everything already."]
    return after, [*said, *python_config.remarks(text)], _NEXT_BESIDE.format(state=state)


def _in_littlest(arguments: argparse.Namespace) -> int:
    """Files of ours beside those of The Littlest JupyterHub: written whole, or taken away."""
    state = arguments.state.expanduser().absolute()
    places = littlest.Places(prefix=arguments.tljh, units=arguments.units, state=state)
    folder, own = places.config.parent, arguments.tljh / littlest.OWN_CONFIG
    if not folder.parent.is_dir():
        message = f"There is no Littlest JupyterHub in {arguments.tljh}: it has no folder {folder.parent}."
        raise BadRequest(message)
    there = {one: _read(one) if one.exists() else "" for one in littlest.files(places)}
    for path, before in there.items():
        littlest.check_ours(path, before)
    if arguments.undo:
        return _out_of_littlest(there)
    config = values_file.ValuesFile(_read(own) if own.exists() else "").values
    others = sorted(set(folder.glob("*.py")) - {places.config})
    littlest.check({str(one): _read(one) for one in others})
    changed = False
    for path, text in littlest.files(places).items():
        changed |= there[path] != text
        sys.stdout.write("".join(_diff(there[path], text, path)))
        if there[path] != text and arguments.apply:
            _put(path, text)
    _tell_littlest(arguments, places, config, changed=changed)
    return 0


def _out_of_littlest(there: Mapping[Path, str]) -> int:
    """Take our files away; one that was changed since is kept beside, where nothing reads it."""
    for path, text in there.items():
        sys.stdout.write("".join(_diff(text, "", path)))
        try:
            if text and not littlest.is_as_written(text):
                kept = path.rename(path.with_name(f"{path.name}.kept"))
                sys.stdout.write(
                    f"{path} was changed since it was written: it is kept as {kept}.\n"
                )
            elif text:
                path.unlink()
            if path.parent.suffix == ".d" and path.parent.stem.endswith(".service"):
                # It was made for this file; one that holds others' stays.
                with suppress(OSError):
                    path.parent.rmdir()
        except OSError as error:
            message = f"{path} cannot be taken away: {error.strerror}."
            raise BadRequest(message) from None
    said = littlest.UNDONE if any(there.values()) else ("Nothing of GPU Commons is there.",)
    sys.stdout.writelines(f"{line}\n" for line in said)
    return 0


def _tell_littlest(
    arguments: argparse.Namespace, places: littlest.Places, config: Any, *, changed: bool
) -> None:
    sys.stdout.writelines(printable(line) + "\n" for line in littlest.remarks(config))
    if not changed:
        sys.stdout.write("It has everything already.\n")
    elif arguments.apply:
        sys.stdout.write("Both files are written.\n")
    else:
        sys.stdout.write("Nothing is written: do it with --apply.\n")
    sys.stdout.write(littlest.following(config, places))


def _put(path: Path, text: str) -> None:
    """A file that is ours alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In place of a link, too: what that names is not ours.
        write_whole(path, text.encode(), mode=0o644)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}."
        raise BadRequest(message) from None


def _applied(text: str, arguments: argparse.Namespace) -> tuple[str, list[str]]:
    if arguments.hub_image is None:
        message = (
            "Name the hub's image (--hub-image NAME:TAG): it carries our package, so it is built for"
            " your hub. deploy/image/hub.Dockerfile builds it."
        )
        raise BadRequest(message)
    choice = changes.Choice(
        hub_image=arguments.hub_image,
        notebook_image=arguments.notebook_image,
        namespace=arguments.namespace,
    )
    file = values_file.ValuesFile(text)
    remarks = list(changes.remarks(file.values, choice))
    after, done = values_file.applied(file, choice)
    said = [f"{'.'.join(one.path)}: {one.why}" for one in done]
    return after, [*(said or ["The file has everything already."]), *remarks]


def _undone(text: str) -> tuple[str, list[str]]:
    after, is_original = values_file.undone(text)
    if after == text:
        return after, [_NOTHING]
    said = "The file is as it was, to the byte." if is_original else _CHANGED_MEANWHILE
    return after, [f"{said} Then: helm upgrade of the hub with this file.", _LEFT_IN_CLUSTER]


def _diff(before: str, after: str, file: Path) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    for line in difflib.unified_diff(old, new, str(file), str(file), lineterm=""):
        yield printable(line) + "\n"


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            message = (
                f"{file} is larger than {_MAX_BYTES >> 20} MiB: these are no values of a chart."
            )
            raise BadRequest(message)
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        message = f"{file} cannot be read: {reason}."
        raise BadRequest(message) from None


def _write(file: Path, text: str) -> None:
    """Whole or not at all, with the rights that it has: it may hold secrets."""
    try:
        write_again(file, text.encode())
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}."
        raise BadRequest(message) from None
