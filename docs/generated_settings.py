"""The page of all settings, from the classes and command lines that have them, so that it cannot be out of date."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from generated_words import escaped
from traitlets import HasTraits, TraitType

from gpucommons.gpu.agent.options import build_parser as agent_parser
from gpucommons.idle_culler.app import CullerApp
from gpucommons.labextension.extension import GpuCommonsExtension
from gpucommons.scheduler.wiring.options import parser as scheduler_parser
from gpucommons.spawner.form.form_mixin import StartOptions
from gpucommons.spawner.kube import GpuKubeSpawner
from gpucommons.spawner.lease import LeaseMixin
from gpucommons.spawner.local import GpuLocalSpawner

#: Heading, what stands before a setting's name, and the classes that bring the settings.
_GROUPS: tuple[tuple[str, str, tuple[type[HasTraits], ...]], ...] = (
    (
        "Both spawners (`c.GpuLocalSpawner`, `c.GpuKubeSpawner`)",
        "",
        (StartOptions, LeaseMixin),
    ),
    ("Notebooks as processes of the machine", "c.GpuLocalSpawner.", (GpuLocalSpawner,)),
    ("Notebooks as pods", "c.GpuKubeSpawner.", (GpuKubeSpawner,)),
    ("The notebook server's extension", "c.GpuCommonsExtension.", (GpuCommonsExtension,)),
    ("The idle culler", "c.CullerApp.", (CullerApp,)),
)


def settings_of(kind: type[HasTraits]) -> dict[str, TraitType[Any, Any]]:
    """Its own settings by name, in alphabetical order."""
    return dict(sorted(kind.class_own_traits(config=True).items()))


def settings() -> Iterator[str]:
    """The lines of the page."""
    yield "# Every setting\n"
    yield "Traits for configuration files in Python, and the options of the programs that `gpucommons up`"
    yield "and the chart start. A default that a helper sets (`configure`, `configure_cluster`,"
    yield "`configure_beside`) wins over the one here. [What they belong to](../configuration.md)\n"
    for heading, before, kinds in _GROUPS:
        yield f"## {heading}\n"
        yield "| setting | default | meaning |\n|---|---|---|"
        for kind in kinds:
            for name, trait in settings_of(kind).items():
                yield f"| `{before}{name}` | {_default(trait)} | {_meaning(trait)} |"
        yield ""
    yield from _program("The scheduler", scheduler_parser())
    yield from _program("The node agent", agent_parser())


def _default(trait: TraitType[Any, Any]) -> str:
    told = trait.default_value_repr()
    return "" if told in ("''", "{}", "set()", "None") else f"`{told}`"


def _meaning(trait: TraitType[Any, Any]) -> str:
    """In one line of a table; what stands in marks of code stays as it is."""
    parts = " ".join(str(trait.help).replace("``", "`").split()).split("`")
    prose = [part if number % 2 else escaped(part) for number, part in enumerate(parts)]
    return "`".join(prose).replace("|", "\\|")


def _program(heading: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## {heading}\n"
    yield f"```text\n{parser.format_help().rstrip()}\n```\n"
