"""Paths that lead out of the folder that a job takes along: ``../data`` is another place where the job runs."""

from __future__ import annotations

import re

#: Whatever stands in quotes, behind a space or an equals sign, as in ``open("../data/x.csv")`` and ``--data ../data``.
_ABOVE = re.compile(r"""["'\s=(](?P<path>\.\./[\w.-][\w./-]*)(?=["'\s),;]|$)""")
_READ = (".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini")
#: Longer lines are data.
_LONGEST_LINE = 400


def may_name_paths(name: str) -> bool:
    """Whether a file at the top of the folder is read for them: those below have a folder above that goes along."""
    return "/" not in name and name.endswith(_READ)


def path_above(text: str) -> tuple[int, str] | None:
    """The first line that names such a path, from 1, and the path; comments are left out."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LONGEST_LINE or line.lstrip().startswith(("#", "from ", "import ")):
            continue
        match = _ABOVE.search(f" {line}")
        if match is not None:
            return number, match["path"]
    return None
