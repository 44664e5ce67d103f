"""The Littlest JupyterHub: one file of ours in its folder for such, one for systemd; pure, over texts.

Nothing of its own is changed: ``tljh-config`` goes on owning ``config.yaml``. Where its files lie and what
they mean is read from its release 2.0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.scheduler.cli.install import python_config
from gpucommons.scheduler.cli.install.changes import at
from gpucommons.scheduler.errors import BadRequest

#: Below the folder that it is installed in.
OWN_CONFIG, EXTRA_CONFIGS = Path("config/config.yaml"), Path("config/jupyterhub_config.d")
_NAME = "50-gpucommons"
_MARK = "# Written by `gpucommons install --tljh`; --undo takes it away.\n"
_CONFIG = """\
from gpucommons.spawner.littlest import configure_littlest

configure_littlest(c, {state!r})  # noqa: F821
"""
_UNIT = """\
[Service]
# Notebooks are processes of the hub's now, and see the device files of GPUs and the machine's own /tmp.
PrivateDevices=no
PrivateTmp=no
# They outlive a restart of the hub, as units of their own did.
KillMode=process
"""
_NEXT = """
Next, as root, with the file of this release's wheel for WHEEL, and the last one kept running (deploy/systemd has a unit):
  {prefix}/hub/bin/pip install 'WHEEL[hub,service]'
  {prefix}/user/bin/pip install 'WHEEL[notebook]'
  {prefix}/hub/bin/gpucommons up --beside-hub http://127.0.0.1:15001{base}hub/api \\
    --account-template 'jupyter-{{username}}' --state {state} --config TEAMS.yaml
then, once nobody works in a notebook: systemctl daemon-reload && tljh-config reload hub
"""

#: Said once both files are gone.
UNDONE = (
    "Our files are gone. Then, once nobody works in a notebook: systemctl daemon-reload && tljh-config reload hub",
    "Not undone by that: the idle culler, where you switched it off (tljh-config set services.cull.enabled"
    " true); accounts of names of 18 characters or more, which The Littlest JupyterHub cuts otherwise (rename"
    " those back); `gpucommons up` and its folder.",
)
_WRITTEN_STATE = re.compile(
    r"^configure_littlest\(c, (?P<state>'[^'\n]*'|\"[^\"\n]*\")\)", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Where things lie on this machine."""

    #: Of The Littlest JupyterHub.
    prefix: Path
    #: Of an admin's own units and what is added to others'.
    units: Path
    #: Of ``gpucommons up``.
    state: Path

    @property
    def config(self) -> Path:
        """Our file that its hub reads."""
        return self.prefix / EXTRA_CONFIGS / f"{_NAME}.py"

    @property
    def unit(self) -> Path:
        """Our file beside its hub's unit."""
        return self.units / "jupyterhub.service.d" / f"{_NAME}.conf"


def files(places: Places) -> Mapping[Path, str]:
    """What is written, and where."""
    return {
        places.config: _MARK + _CONFIG.format(state=str(places.state)),
        places.unit: _MARK + _UNIT,
    }


def is_as_written(text: str) -> bool:
    """Whether a file of ours is to the letter what this release writes, for whatever folder of `gpucommons up`."""
    found = _WRITTEN_STATE.search(text)
    states = [ast.literal_eval(found["state"])] if found else []
    return text in {_MARK + _UNIT, *(_MARK + _CONFIG.format(state=one) for one in states)}


def check_ours(place: Path, text: str) -> None:
    """Refuse to replace or take away what stands at a place of ours and was not written here.

    Raises
    ------
    BadRequest
        With what to do with it.
    """
    if text and not text.startswith(_MARK):
        message = f"{place} was not written by this command: move what is in it into a file of another name."
        raise BadRequest(message)


def check(extra: Mapping[str, str]) -> None:
    """See that the admin's own files there, by name, leave room for ours.

    Raises
    ------
    BadRequest
        With the file and what stands against ours in it.
    """
    for name, text in sorted(extra.items()):
        found = next(python_config.contradictions(text), None)
        if found is not None:
            message = f"{name}: {found}"
            raise BadRequest(message)


def remarks(config: Mapping[str, Any]) -> Iterator[str]:
    """What changes for its users beside GPUs."""
    yield (
        "Notebooks start as processes of the hub instead of units of systemd, in the same accounts"
        " (jupyter-NAME) and homes."
    )
    # `no_new_privs`, which its own units do not set for admins.
    yield (
        "Admins' sudo is refused in notebooks and their terminals: no process there gains rights. Install"
        " packages as root on the machine, with the pip of its user environment."
    )
    for name in ("memory", "cpu"):
        if (limit := at(config, ("limits", name))) is not None:
            yield f"limits.{name} is {limit}: it was held by those units, and holds no longer."
    if at(config, ("services", "cull", "enabled")) is not False:
        yield (
            "Its idle culler runs, and two would stop each other's notebooks; ours knows what a GPU does:"
            " tljh-config set services.cull.enabled false"
        )


def following(config: Mapping[str, Any], places: Places) -> str:
    """What comes next."""
    base = f"/{str(at(config, ('base_url',)) or '/').strip('/')}/".replace("//", "/")
    return _NEXT.format(prefix=places.prefix, base=base, state=places.state)
