"""What a notebook without a GPU gets, in words of the form's language."""

from __future__ import annotations

from gpucommons.scheduler.languages.texts import gettext, ngettext
from gpucommons.scheduler.models.text.number_words import decimal


def cpu_and_memory(cores: float, gib: float) -> str:
    """``2 cores, 4 GiB``; nothing is said of what is 0."""
    said = []
    if cores == int(cores) and cores:
        said.append(ngettext("%(num)s core", "%(num)s cores", int(cores)))
    elif cores:
        said.append(
            gettext("%(num)s of a core", num=decimal(f"{cores:g}"))
            if cores < 1
            else gettext("%(cores)s cores", cores=decimal(f"{cores:g}"))
        )
    if gib:
        said.append(f"{decimal(f'{gib:.3g}')} GiB")
    return ", ".join(said)
