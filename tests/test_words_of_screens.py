"""No screen of a researcher speaks of Kubernetes: its texts are read where they are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Words that only an admin of the cluster reads.
WORDS = re.compile(
    r"\b(pods?|namespaces?|node ?selectors?|kubernetes|kubectl|kubelet|kube-scheduler|configmaps?|"
    r"daemonsets?|persistentvolumeclaims?|readwrite(once|many|oncepod)|tolerations?|taints?|"
    r"runtimeclass|storageclass|crds?|admission (webhooks?|polic(y|ies))|podsecurity|"
    r"resourcequotas?|scheduling gates?)\b",
    re.IGNORECASE,
)
#: What a researcher is told by the service, the hub's pages and the notebook server.
PYTHON = (
    "scheduler/core/**/*.py",
    "scheduler/environments/*.py",
    "scheduler/executors/kubernetes/attempts/sentences.py",
    "scheduler/failures/*.py",
    "scheduler/forecast/*.py",
    "scheduler/intake/*.py",
    "scheduler/scripts/*.py",
    "scheduler/service/**/*.py",
    "scheduler/executors/kubernetes/manifests/home_volumes.py",
    "scheduler/working_folder/*.py",
    "scheduler/pages/*.py",
    "scheduler/client/*.py",
    "scheduler/cli/submit/*.py",
    "labextension/**/*.py",
)
PAGES = ("labextension/src/**/*.ts*", "labextension/widgets/*.js", "**/templates/**/*.html")
#: Of whole files: they are read by admins alone.
FOR_ADMINS = ("admin", "settings", "cordon_and_fence", "metrics")
#: Names in code, which nobody reads on a screen.
NOT_SHOWN = frozenset(
    {
        "kubernetes",
        "kubernetes-object",
        "ReadWriteOncePod",
        "ReadWriteMany",
        "ReadOnlyMany",
    }
)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module that are no docstrings; f-strings piece by piece."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and _is_shown(node.value):
            yield node.lineno, node.value


def _is_shown(text: str) -> bool:
    """A pattern with named groups reads what the cluster says; it is no text of ours."""
    return text not in NOT_SHOWN and "(?P<" not in text


def page_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Everything of a page's source but its comments."""
    text = re.sub(r"/\*.*?\*/|\{#.*?#\}|<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        # Comments, and names of options of Lab's.
        yield number, re.sub(r"(^|\s)//.*|\bnamespace:", "", line)


def found(patterns: tuple[str, ...], read: object) -> list[str]:
    hits = []
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if re.search(r"(^|/)(\.venv|node_modules|build)/|\.spec\.|/testing/", name):
                continue
            if any(part in path.stem for part in FOR_ADMINS):
                continue
            for line, text in read(path):  # type: ignore[operator] # one of the two readers
                hits += [f"{name}:{line}: {match[0]}" for match in WORDS.finditer(text)]
    return hits


@pytest.mark.parametrize("pattern", PYTHON)
def test_what_the_service_says_has_no_word_of_kubernetes(pattern: str) -> None:
    assert list(ROOT.glob(pattern)), f"nothing is there any more: {pattern}"
    assert found((pattern,), texts) == []


@pytest.mark.parametrize("pattern", PAGES)
def test_no_page_has_a_word_of_kubernetes(pattern: str) -> None:
    assert list(ROOT.glob(pattern))
    assert found((pattern,), page_texts) == []


def test_the_test_would_find_one(tmp_path: Path) -> None:
    module, page = tmp_path / "a.py", tmp_path / "a.ts"
    module.write_text('"""A pod."""\nx = f"its pod {1} waits"\n')
    page.write_text("// a pod\n/* pod */ msg('the node selector');\n")
    assert [line for line, text in texts(module) if WORDS.search(text)] == [2]
    assert [line for line, text in page_texts(page) if WORDS.search(text)] == [2]
