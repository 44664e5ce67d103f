"""Draws folders and their imports, so that the picture of the architecture cannot be out of date.

A folder stands above all that it imports. An arrow that follows from two others is left out.
``python docs/import_graph.py PACKAGE`` prints the longest chain of imports inside a package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _ROW = 132, 34, 14, 78
_STYLE = (
    "text{font:12px sans-serif;text-anchor:middle}"
    "rect{fill:#eef2f7;stroke:#5b6b7f;rx:5px}"
    "path{fill:none;stroke:#8a98a9;marker-end:url(#head)}"
)
_HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8a98a9;stroke:none;marker-end:none"/></marker>'
)

#: For each folder the folders that it imports.
Imports = Mapping[str, frozenset[str]]


def imports_between(graph: grimp.ImportGraph, package: str) -> dict[str, frozenset[str]]:
    """Imports between the direct children of a package."""
    prefix = f"{package}."
    found: dict[str, set[str]] = {
        name.removeprefix(prefix): set() for name in graph.find_children(package)
    }
    for module in sorted(graph.find_descendants(package)):
        importer = module.removeprefix(prefix).split(".")[0]
        for imported in graph.find_modules_directly_imported_by(module):
            if imported.startswith(prefix):
                found[importer].add(imported.removeprefix(prefix).split(".")[0])
    return {name: frozenset(below - {name}) for name, below in found.items()}


def longest_chain(imports: Imports) -> list[str]:
    """The longest way from one to another along imports, of which none lead in a circle."""
    longest: dict[str, list[str]] = {}
    for row in reversed(rows_of(imports)):
        for name in row:
            ways = (longest[one] for one in sorted(imports[name]))
            longest[name] = [name, *max(ways, key=len, default=[])]
    return max(longest.values(), key=len, default=[])


def imports_inside(graph: grimp.ImportGraph, package: str) -> dict[str, frozenset[str]]:
    """Imports between all modules of a package."""
    inside = graph.find_descendants(package)
    return {
        module: frozenset(graph.find_modules_directly_imported_by(module) & inside)
        for module in inside
    }


def rows_of(imports: Imports) -> list[list[str]]:
    """Folders in rows, the highest first: each stands one row above the highest that it imports.

    Raises
    ------
        ValueError: folders import each other in a circle.
    """
    levels: dict[str, int] = {}
    while len(levels) < len(imports):
        ready = {
            name: 1 + max((levels[one] for one in below), default=-1)
            for name, below in imports.items()
            if name not in levels and below <= levels.keys()
        }
        if not ready:
            circle = ", ".join(sorted(imports.keys() - levels.keys()))
            raise ValueError(f"These folders import each other in a circle: {circle}.")
        levels |= ready
    highest = max(levels.values(), default=0)
    return [
        sorted(name for name, level in levels.items() if level == row)
        for row in range(highest, -1, -1)
    ]


def arrows(imports: Imports) -> list[tuple[str, str]]:
    """Imports that do not follow from two others."""
    reached: dict[str, frozenset[str]] = {}
    for row in reversed(rows_of(imports)):
        for name in row:
            below = imports[name]
            reached[name] = below.union(*(reached[one] for one in below))
    return [
        (name, one)
        for name, below in sorted(imports.items())
        for one in sorted(below)
        if not any(one in reached[other] for other in below - {one})
    ]


def svg(imports: Imports) -> str:
    """The picture."""
    rows = rows_of(imports)
    width = max(len(row) for row in rows) * (_BOX_WIDTH + _GAP) + _GAP
    places = _places(rows, width)
    boxes = (
        f'<rect x="{x - _BOX_WIDTH / 2:g}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"/>'
        f'<text x="{x:g}" y="{y + 21}">{escape(name)}</text>'
        for name, (x, y) in places.items()
    )
    lines = (_line(places[name], places[one]) for name, one in arrows(imports))
    height = len(rows) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
        f"<style>{_STYLE}</style><defs>{_HEAD}</defs>{''.join(lines)}{''.join(boxes)}</svg>\n"
    )


def _places(rows: Sequence[Sequence[str]], width: int) -> dict[str, tuple[float, int]]:
    step = _BOX_WIDTH + _GAP
    return {
        name: (width / 2 + (number - (len(row) - 1) / 2) * step, depth * _ROW + _GAP)
        for depth, row in enumerate(rows)
        for number, name in enumerate(row)
    }


def _line(above: tuple[float, int], below: tuple[float, int]) -> str:
    (x1, y1), (x2, y2) = above, below
    y1 += _BOX_HEIGHT
    middle = (y1 + y2) / 2
    return f'<path d="M{x1:g} {y1}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2}"/>'


def draw(folder: Path, packages: Mapping[str, str]) -> None:
    """Write ``NAME.svg`` for each package into a folder."""
    graph = grimp.build_graph("gpucommons", cache_dir=None)
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in packages.items():
        (folder / f"{name}.svg").write_text(svg(imports_between(graph, package)))


if __name__ == "__main__":
    _graph = grimp.build_graph("gpucommons", cache_dir=None)
    _chain = longest_chain(imports_inside(_graph, sys.argv[1]))
    print(len(_chain), *_chain, sep="\n")  # noqa: T201 - the answer of a command
