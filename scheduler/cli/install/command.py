"""Reads an admin's file, shows the difference, and writes only when told to.

A values file of Zero to JupyterHub, the ``jupyterhub_config.py`` of a hub on this machine, or the folder of
The Littlest JupyterHub.
"""

from __future__ import annotations

import argparse
import difflib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpucommons.gpu.extras import coming_with
from gpucommons.scheduler.cli.install import changes, littlest, python_config
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
    file = _File(text)
    said = list(_undone(file) if arguments.undo else _applied(file, arguments))
    following = _NEXT.format(namespace=arguments.namespace, file=arguments.values)
    return file.text(), said, following


def _in_config(text: str, arguments: argparse.Namespace) -> tuple[str, list[str], str]:
    """The same of a hub's own Python file."""
    state = arguments.state.expanduser().absolute()
    if arguments.undo:
        after = python_config.undone(text)
        done = "What stood there before is back. Then restart the hub."
        return after, [done if after != text else "Nothing of GPU Commons is in this file."], ""
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
    config = _File(_read(own) if own.exists() else "").values
    others = sorted(set(folder.glob("*.py")) - {places.config})
    if not arguments.undo:
        littlest.check({str(one): _read(one) for one in others})
    there = {one: _read(one) if one.exists() else "" for one in littlest.files(places)}
    for path, before in there.items():
        littlest.check_ours(path, before)
    changed = False
    for path, text in littlest.files(places).items():
        before, after = there[path], "" if arguments.undo else text
        changed |= before != after
        sys.stdout.write("".join(_diff(before, after, path)))
        if before != after and (arguments.apply or arguments.undo):
            _put(path, after)
    _tell_littlest(arguments, places, config, changed=changed)
    return 0


def _tell_littlest(
    arguments: argparse.Namespace, places: littlest.Places, config: Any, *, changed: bool
) -> None:
    if arguments.undo:
        done = "Our files are gone. Then: systemctl daemon-reload && tljh-config reload hub"
        sys.stdout.write(f"{done if changed else 'Nothing of GPU Commons is there.'}\n")
        return
    sys.stdout.writelines(printable(line) + "\n" for line in littlest.remarks(config))
    if not changed:
        sys.stdout.write("It has everything already.\n")
    elif arguments.apply:
        sys.stdout.write("Both files are written.\n")
    else:
        sys.stdout.write("Nothing is written: do it with --apply.\n")
    sys.stdout.write(littlest.following(config, places))


def _put(path: Path, text: str) -> None:
    """A file that is ours alone: there, or not."""
    try:
        if not text:
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # In place of a link, too: what that names is not ours.
        write_whole(path, text.encode(), mode=0o644)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}."
        raise BadRequest(message) from None


def _applied(file: _File, arguments: argparse.Namespace) -> Iterator[str]:
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
    remarks = list(changes.remarks(file.values, choice))
    done = changes.apply(file.values, choice)
    yield from (f"{'.'.join(one.path)}: {one.why}" for one in done)
    if not done:
        yield "The file has everything already."
    yield from remarks


def _undone(file: _File) -> Iterator[str]:
    if changes.undo(file.values):
        yield "What stood there before is back. Then: helm upgrade of the hub with this file."
    else:
        yield "Nothing of GPU Commons is in this file."


class _File:
    """YAML with its comments, order and quotes as the admin wrote them."""

    def __init__(self, text: str) -> None:
        with coming_with("install"):
            from ruamel.yaml import YAML  # noqa: PLC0415 - an extra
            from ruamel.yaml.error import YAMLError  # noqa: PLC0415
            from ruamel.yaml.util import load_yaml_guess_indent  # noqa: PLC0415
        self._yaml = YAML()
        self._yaml.preserve_quotes = True
        self._yaml.width = 10_000
        try:
            _, indent, offset = load_yaml_guess_indent(text)
            self.values: Any = self._yaml.load(text) or {}
        except YAMLError as error:
            message = f"The values are not YAML: {getattr(error, 'problem', None) or error}."
            raise BadRequest(message) from None
        if not hasattr(self.values, "items"):
            raise BadRequest("The values must be a mapping, as the chart has it.")
        self._yaml.indent(mapping=2, sequence=indent or 2, offset=offset or 0)

    def text(self) -> str:
        out = io.StringIO()
        self._yaml.dump(_as_written(self.values), out)
        return out.getvalue()


def _as_written(value: Any) -> Any:
    """Our own text of several lines as a block, which is how people read it."""
    from ruamel.yaml.scalarstring import LiteralScalarString  # noqa: PLC0415 - an extra

    config = changes.at(value, ("hub", "extraConfig"))
    if config and type(config.get(changes.CONFIG_KEY)) is str:
        config[changes.CONFIG_KEY] = LiteralScalarString(config[changes.CONFIG_KEY])
    return value


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
