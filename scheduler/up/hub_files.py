"""The hub's configuration: one small Python file, and the facts it reads as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from gpucommons.scheduler.models import ConfigModel
from gpucommons.scheduler.up.parts import Machine
from gpucommons.scheduler.up.settings import Settings
from gpucommons.scheduler.up.state_folder import write_private

#: What the hub is told about the machine.
FACTS_FILE = "hub.json"

_CONFIG = """\
# Written by `gpucommons up` at every start. Your own settings go into jupyterhub_extra.py
# beside this file: it is read last.
import os

from gpucommons.spawner.workstation import configure_workstation

here = os.path.dirname(os.path.abspath(__file__))
configure_workstation(c, os.path.join(here, "hub.json"))  # noqa: F821
if os.path.exists(os.path.join(here, "jupyterhub_extra.py")):
    load_subconfig(os.path.join(here, "jupyterhub_extra.py"))  # noqa: F821
"""


def teams_of(config: ConfigModel) -> dict[str, list[str]]:
    """Hub groups and their members: a team's own name, and the groups that map to it."""
    groups: dict[str, set[str]] = {}
    for team in config.teams:
        for name in (team.name, *team.groups):
            groups.setdefault(name, set()).update(team.members, team.leads)
    return {name: sorted(members) for name, members in groups.items() if members}


def admitted(settings: Settings, teams: Mapping[str, Iterable[str]]) -> list[str]:
    """Who may log in."""
    if settings.admission == "one":
        return [settings.account]
    members = {user for users in teams.values() for user in users}
    return sorted(members | set(settings.admins))


def write_hub_files(machine: Machine, config: ConfigModel) -> None:
    """Write both files, which nobody else may read."""
    write_facts(machine, config)
    write_private(machine.folder.hub_config, _CONFIG)


def write_facts(machine: Machine, config: ConfigModel) -> None:
    """What a hub has to know, its own file or that of another hub on this machine."""
    folder, settings = machine.folder, machine.settings
    users = admitted(settings, teams_of(config))
    # Another hub has an authenticator of its own, which says who may log in.
    teams = {
        name: [user for user in members if settings.beside or user in users]
        for name, members in teams_of(config).items()
    }
    facts = {
        "port": settings.port,
        "ports": dict(machine.ports),
        "state": str(folder.root),
        "api_url": machine.api_url,
        "pages_url": machine.pages_url,
        "agent_dir": str(folder.agent),
        "homes": str(folder.homes / "{username}"),
        "accounts": settings.account_template,
        "admission": settings.admission,
        "users": users,
        "teams": teams,
        "admins": [user for user in settings.admins if settings.beside or user in users],
    }
    write_private(folder.root / FACTS_FILE, json.dumps(facts, indent=1))
