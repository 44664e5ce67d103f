"""``gpucommons apply`` and ``config``: pools, teams and policy as a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import yaml

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.config_files import config_of
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.operating.pruning import pruned
from gpucommons.scheduler.cli.present import show
from gpucommons.scheduler.cli.profiles import commands as profiles
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.documents.mappings import (
    MAX_CONFIG_BYTES,
    mapping_in,
    read_content,
)


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``apply`` and ``config``."""
    file = commands.add_parser(
        "apply", parents=[shared], help="apply pools, teams, policy, profiles"
    )
    file.add_argument("-f", "--file", type=Path, required=True, help="- = standard input")
    file.add_argument("--dry-run", action="store_true", help="only say what would change")
    about = "remove teams that FILE does not name; refused while one of them has work"
    file.add_argument("--prune", action="store_true", help=about)
    about = "with --prune: a team that has work loses its quotas, and goes once it has none"
    file.add_argument("--force", action="store_true", help=about)
    file.set_defaults(run=apply)
    about = "print pools, teams and policy as they are, as a file for apply"
    commands.add_parser("config", parents=[shared], help=about).set_defaults(run=write_config)


def apply(arguments: argparse.Namespace) -> int:
    """Apply a YAML file with pools, teams and policy, and profiles of teams."""
    wanted_of = "pools, teams, policy or profiles"
    content = read_content(arguments.file, max_bytes=MAX_CONFIG_BYTES)
    document = mapping_in(content, arguments.file, of=wanted_of)
    wanted = profiles.taken_from(arguments.file, content, document)
    # Who leads a team publishes its profiles, and may not read the rest.
    alone = wanted and not document and not arguments.prune
    config = None if alone else config_of(arguments.file, content, document)
    kept: list[str] = []
    with connect(arguments) as scheduler:
        if config is not None and arguments.prune:
            config, kept = pruned(scheduler, config, force=arguments.force)
        # What an entry leaves out goes to its default: people must see that here at the latest.
        told = [] if config is None else scheduler.send(calls.check_config(config)).changes
        told = [*told, *profiles.changes(scheduler, wanted)]
        answer = models.ConfigChanges(changes=told)
        if arguments.dry_run:
            show(
                answer,
                _listed(told, kept, "Would be applied:", "Nothing would change."),
                output=arguments.output,
            )
            return 0
        applied: models.TeamList | models.ConfigChanges = answer
        if config is not None:
            applied = scheduler.send(calls.put_config(config))
        profiles.put_all(scheduler, wanted, also=config is not None)
    show(applied, _listed(told, kept, "Applied:", "Nothing changed."), output=arguments.output)
    return 0


def _listed(told: Sequence[str], kept: Sequence[str], title: str, nothing: str) -> str:
    lines = [title, *(f"  {change}" for change in told)] if told else [nothing]
    return "\n".join([*lines, *kept])


def write_config(arguments: argparse.Namespace) -> int:
    """Print pools, teams and policy as they are, as a file for ``apply``."""
    with connect(arguments) as scheduler:
        found = scheduler.send(calls.get_config())
    document = found.model_dump(mode="json", exclude_defaults=True)
    show(found, yaml.safe_dump(document, sort_keys=False).rstrip(), output=arguments.output)
    return 0
