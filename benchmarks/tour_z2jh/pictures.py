"""The two images of Zero to JupyterHub's release that are neither hub nor notebook, made here."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.release.archive import Run, Written, write_archive
from gpucommons.scheduler.up.proxy import find_proxy
from tests.kubernetes.toolchain import toolchain
from tests.kubernetes.toolchain.image import Layer
from tests.kubernetes.toolchain.images import system_layer

PROXY, SCHEDULER = "localhost/configurable-http-proxy:5", "localhost/kube-scheduler:1"
_START = '#!/bin/sh\nexec /opt/node /opt/node_modules/configurable-http-proxy/bin/configurable-http-proxy "$@"\n'


def proxy_archive(folder: Path) -> Path:
    """Npm's configurable-http-proxy with the Node of this machine."""
    node, script = (Path(one) for one in find_proxy(folder))
    modules = script.parents[2]
    files = {
        f"opt/node_modules/{path.relative_to(modules)}": path
        for package in _needed(modules, "configurable-http-proxy", set())
        for path in (modules / package).rglob("*")
        if path.is_file()
    }
    start = "usr/local/bin/configurable-http-proxy"
    layer = Layer(
        files=files | {"opt/node": node}, texts={start: _START}, executable=frozenset({start})
    )
    return _write(folder, PROXY, [system_layer([node]), layer])


def scheduler_archive(folder: Path) -> Path:
    """The user scheduler's program is Kubernetes' own."""
    program = toolchain.find("kube-scheduler")
    layer = Layer(files={"usr/local/bin/kube-scheduler": program})
    return _write(folder, SCHEDULER, [system_layer([program]), layer])


def _needed(modules: Path, package: str, seen: set[str]) -> set[str]:
    """A package of npm with all that it needs, where npm laid them side by side."""
    if package not in seen and (modules / package / "package.json").exists():
        seen.add(package)
        described = json.loads((modules / package / "package.json").read_text())
        for name in described.get("dependencies", {}):
            _needed(modules, name, seen)
    return seen


def _write(folder: Path, reference: str, layers: list[Layer]) -> Path:
    name = reference.rpartition("/")[2].partition(":")[0]
    written = []
    for number, layer in enumerate(layers):
        path = folder / f"{name}-{number}.layer"
        layer.write(path)
        written.append(Written.of(path))
    archive = folder / f"{name}.tar"
    write_archive(archive, reference, written, Run(environment={"PATH": "/usr/local/bin:/bin"}))
    return archive
