"""What a document names is there: options, commands, variables, settings, calls, words of screens."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gpucommons.gpu.agent.options import build_parser as agent_parser
from gpucommons.idle_culler.app import CullerApp
from gpucommons.labextension.extension import GpuCommonsExtension
from gpucommons.scheduler.api.app import describe
from gpucommons.scheduler.cli.commands import build_parser
from gpucommons.scheduler.cli.slurm_commands import options as slurm
from gpucommons.scheduler.cli.slurm_commands.elsewhere import INSTEAD
from gpucommons.scheduler.wiring.options import parser as scheduler_parser
from gpucommons.spawner.kube import GpuKubeSpawner
from gpucommons.spawner.local import GpuLocalSpawner

ROOT = Path(__file__).parents[1]
#: Decisions and benchmarks speak of what was once; of the others each sentence is about today.
DOCUMENTS = tuple(
    path
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*/*.md")))
    if path.name not in {"decisions.md", "benchmarks.md"} and "generated" not in path.parts
)
CODE = re.compile(r"`([^`\n]+)`")
#: `--gpus`, and not the middle of another word.
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
#: Of programs that are not ours, or of which a user brings their own: what they are called with.
OF_OTHERS = {
    "accelerate, deepspeed, torchrun": "--config_file --deepspeed_config --nproc-per-node --no_python --no_local_rank"
    " --local_rank --module --launcher",
    "benchmarks": "--first-fraction --milli-gpu --only --json",
    "docker": "--build-arg",
    "gpucommons.gpu.clouds.fake": "--after-s --in-s",
    "gpucommons.scheduler.adapters.trainer": "--settings --scheduler-url",
    "gunicorn, pip, npm": "--prefix --unsafe-perm",
    "helm": "--install --no-hooks --set",
    "jupyter": "--paths",
    "kubectl": "--force --grace-period --previous",
    "nanoGPT, and scripts of whoever reads": "--init_from --learning_rate --key --resume",
    "nvidia-smi": "--query-gpu --format --gpu-reset",
    "scripts of examples": "--lr --batch --dropout --optimizer --momentum --epochs --seconds-per-epoch",
    "slurm": "--dependency --no-requeue --pty --start --requeue --hold --wait --wrap --array --parsable",
    "the kernel": "--bound-inactive",
}
MAKE = re.compile(r"^make ([a-z-]+)")
CALL = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/v1/[^\s`?,;)]+)")
SETTING = re.compile(r"\bc\.(GpuLocalSpawner|GpuKubeSpawner|GpuCommonsExtension|CullerApp)\.(\w+)")
CLASSES = {
    one.__name__: one for one in (GpuLocalSpawner, GpuKubeSpawner, GpuCommonsExtension, CullerApp)
}


def places(pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Where it stands in the documents."""
    for path in DOCUMENTS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for match in pattern.finditer(line):
                yield f"{path.relative_to(ROOT)}:{number}", match


def commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Each command, by its words."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, (*path, name))


COMMANDS = dict(commands(build_parser()))


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {option for action in parser._actions for option in action.option_strings}


@cache
def sources() -> str:
    """All of what is shipped, without documents and tests; texts that go on in another line are joined."""
    listed = subprocess.run(
        ["git", "ls-files", "scheduler", "gpu", "spawner", "idle_culler", "labextension", "deploy"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    kinds = (".py", ".ts", ".tsx", ".js", ".html", ".json", ".yaml", ".txt", ".tpl", ".c", ".cjs")
    text = "\n".join((ROOT / one).read_text() for one in listed if one.endswith(kinds))
    return text + re.sub(r"[\"']\s*\+?\s*f?[\"']", "", re.sub(r"\s+", " ", text))


@pytest.fixture(scope="module", autouse=True)
def _a_checkout() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only a checkout knows which files belong to the project")


def test_an_option_is_one_of_a_program_that_is_there() -> None:
    ours = {option for parser in COMMANDS.values() for option in options(parser)}
    ours |= options(scheduler_parser()) | options(agent_parser())
    ours |= {f"--{name}" for name in (*CullerApp.aliases, *CullerApp.flags)}
    ours |= {word for one in OF_OTHERS.values() for word in one.split()}
    ours |= set(re.findall(r"--[a-z-]+", Path(slurm.__file__ or "").read_text()))
    unknown = {
        f"{place}: {option}"
        for place, code in places(CODE)
        for option in OPTION.findall(code[1])
        if option not in ours
    }
    assert unknown == set()


def named_command(code: str) -> tuple[str, ...] | None:
    """The words of a command of ours that a piece of code names; of alternatives the first."""
    words = code.replace("\\|", "|").split()
    path: tuple[str, ...] = ()
    for word in words[1:]:
        if not all((*path, one) in COMMANDS for one in word.split("|")):
            break
        path = (*path, word.split("|")[0])
    return path or None


def test_a_command_in_a_sentence_is_one_and_has_the_options_that_are_named() -> None:
    wrong = []
    for place, code in places(re.compile(r"`(?:\.venv/bin/)?(gpucommons [^`\n]+)`")):
        if code[1].split()[1] in {"COMMAND", "--version"}:
            continue
        path = named_command(code[1])
        if path is None:
            wrong.append(f"{place}: {code[1]}")
            continue
        own = options(COMMANDS[path])
        said = OPTION.findall(code[1].partition(" -- ")[0])
        wrong += [f"{place}: {' '.join(path)} {one}" for one in said if own and one not in own]
    assert wrong == []


def test_the_reference_names_every_command() -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text().replace("\\|", "|")
    listed = {path for code in CODE.findall(page) for path in _listed(code)}
    assert {" ".join(path) for path in COMMANDS if path and path not in listed} == set()


def test_where_the_help_of_a_command_lists_what_stands_below_it_it_lists_all() -> None:
    above = build_parser().format_help()
    lines = re.findall(r"^    ([a-z-]+)(?: +|\n {10,})(.*(?:\n {10,}.*)*)", above, re.MULTILINE)
    lists = {name: text.partition(":")[2] for name, text in lines if ":" in text}
    assert {"schedule", "sweep", "notify"} <= lists.keys()
    missing = [
        " ".join(path)
        for path in COMMANDS
        if path[:1] and path[0] in lists and path[1:] and path[1] not in lists[path[0]]
    ]
    assert missing == []


def _listed(code: str) -> frozenset[tuple[str, ...]]:
    """All commands that a piece of code of the reference names, with alternatives and those above."""
    found: set[tuple[str, ...]] = set()
    here: list[tuple[str, ...]] = [()]
    for word in code.split():
        here = [
            (*path, one) for path in here for one in word.split("|") if (*path, one) in COMMANDS
        ]
        found.update(here)
    return frozenset(found)


def test_only_these_commands_have_no_output_for_programs() -> None:
    leaves = {
        " ".join(path)
        for path, parser in COMMANDS.items()
        if not any(isinstance(one, argparse._SubParsersAction) for one in parser._actions)
        and "--output" not in options(parser)
    }
    assert leaves - INSTEAD.keys() == {
        "up", "install", "hibernation setup", "hibernation check", "sbatch",
    }  # fmt: skip


def test_a_variable_of_ours_is_read_or_set_somewhere() -> None:
    known = sources() + (ROOT / "tests/kubernetes/cluster/cluster.py").read_text()
    unknown = {
        f"{place}: {name[0]}"
        for place, name in places(re.compile(r"\bGPUCOMMONS_[A-Z_]*[A-Z]\b"))
        if name[0] not in known
    }
    assert unknown == set()


def test_a_setting_is_a_trait_of_its_class() -> None:
    found = list(places(SETTING))
    assert len(found) > 8
    wrong = [
        f"{place}: {match[0]}"
        for place, match in found
        if match[2] not in CLASSES[match[1]].class_traits(config=True)
    ]
    assert wrong == []


def test_a_call_is_one_of_the_api() -> None:
    known = [
        (method.upper(), re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path) + "$"))
        for path, methods in describe()["paths"].items()
        for method in methods
    ]
    wrong = [
        f"{place}: {match[0]}"
        for place, match in places(CALL)
        if not any(method == match[1] and path.match(match[2]) for method, path in known)
    ]
    assert wrong == []


def test_the_reference_says_which_calls_are_paged_and_which_take_a_key() -> None:
    page = (ROOT / "docs/reference/rest-api.md").read_text()
    paged, keyed = (_calls_with(name) for name in ("cursor", "Idempotency-Key"))
    lists, _, makes = page.partition("What makes something new")
    assert {match[0] for match in CALL.finditer(lists)} == paged
    assert {match[0] for match in CALL.finditer(makes)} == keyed


def _calls_with(parameter: str) -> set[str]:
    return {
        f"{method.upper()} {path}"
        for path, methods in describe()["paths"].items()
        for method, call in methods.items()
        if any(one["name"] == parameter for one in call.get("parameters", []))
    }


def test_a_target_of_make_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    found = [(place, name) for place, code in places(CODE) for name in MAKE.findall(code[1])]
    assert len(found) > 5
    assert [f"{place}: {name}" for place, name in found if name not in targets] == []


#: Pages about an environment that has GPU Commons already: pip then adds the extra's packages alone.
HAS_US_ALREADY = {
    "install-with-helm.md", "run-notebook-jobs.md", "search-parameters.md", "see-how-gpus-were-used.md",
    "trace-starts.md", "use-dask.md", "use-ray.md", "use-submitit.md", "work-in-vs-code.md",
}  # fmt: skip


def test_nobody_is_told_to_install_by_a_name_that_no_registry_holds_for_us() -> None:
    files = (*DOCUMENTS, *(path for path in (ROOT / "deploy").rglob("*") if path.is_file()))
    bare = re.compile(r"pip install [^\n|]*(?<![/\w])'?gpucommons(\[|\b(?!-))")
    found = {path.name for path in files if bare.search(path.read_text(errors="replace"))}
    assert found == HAS_US_ALREADY


# --- words of screens ------------------------------------------------------------------------

#: In italics, and not on a screen of ours: another program's words, names of examples, stressed words.
NOT_OURS = frozenset(
    {
        "Kernel died unexpectedly", "Restart Kernel", "Server Connection Error", "Shut Down Kernel",
        "Manage Groups", "Create a notebook job", "Mark as failed", "Mark as success",
        "Please pass --unsafe-perm",
        "Admin", "Clear", "Input", "Settings → Language → Deutsch", "Terminating", "pruned",
        "grasp-wide", "translate-2", "ablate-2", "ablate", "sweep-1", "nightly", "pretrain", "segment",
        "translate", "much", "provisioned",
    }
)  # fmt: skip
#: On a screen, and put together there from parts that are shorter than what stands here.
PUT_TOGETHER = (
    "Saving its 1.6 GiB of memory would take", "with airflow", "Show Sweeps", "The pool gpu: notice",
    "Tested: it had step 200 and began again", "Tested: stops and goes on at step 200", "Stopped because the cloud takes node-3 back", "speech",
)  # fmt: skip
ITALIC = re.compile(r"(?<![\w*\\])\*([^*\n]+?)\*(?![\w*])")
#: What differs from one time to the next: numbers, shares, names in capitals or of examples.
VARIABLE = re.compile(
    r"…|[½¼¾⅛→]|\b\d[\d,.:]*|\b[A-Z]{2,}\b|\b[\w.-]+\.(?:ipynb|py)\b|node-\d|[:.,]"
)


def said(text: str) -> list[str]:
    """The parts of a quoted sentence that a source can have as they are."""
    return [part for one in VARIABLE.split(text) if len(part := one.strip()) > 2]


#: Where a value is put into a text of a source.
HOLE = re.compile(r"%\(\w+\)s|%[\ds]|\$?\{[^{}]*\}")
COMMENT = re.compile(
    r"/\*.*?\*/|\{#.*?#\}|<!--.*?-->|(?:^|(?<=\s))//[^\n]*", re.DOTALL | re.MULTILINE
)
#: Strings of TypeScript and of templates, and what stands between two tags.
LITERALS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"'((?:[^'\\\n]|\\.)*)'",
        r'"((?:[^"\\\n]|\\.)*)"',
        r"`((?:[^`\\]|\\.)*)`",
        r"[>}]([^<>{}]+)(?=[<{])",
    )
)


def literals(path: Path) -> Iterator[str]:
    """Texts that a source has in quotes, or between tags; in Python with ``{}`` for each value."""
    if path.suffix != ".py":
        text = COMMENT.sub("", path.read_text())
        for pattern in LITERALS:
            yield from pattern.findall(text)
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def plain(text: str) -> str:
    return " ".join(re.sub(r"\\(['\"])", r"\1", text).replace("’", "'").split())


@cache
def on_screens() -> tuple[frozenset[str], str]:
    """Whole texts, cut where something is put in; and all texts, one in a line."""
    listed = subprocess.run(
        ["git", "ls-files", "scheduler", "gpu", "spawner", "idle_culler", "labextension", "examples"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    shown = [one for one in listed if ".spec." not in one and "/testing/" not in one]
    kinds = (".py", ".ts", ".tsx", ".js", ".html", ".json")
    found = {plain(text) for one in shown if one.endswith(kinds) for text in literals(ROOT / one)}
    whole = {part for text in found for piece in HOLE.split(text) for part in said(piece)}
    return frozenset(whole), "\n".join(found)


def is_on_a_screen(part: str) -> bool:
    """One word alone is a label: a whole text, as it is written. Several stand in one text, side by side."""
    whole, texts = on_screens()
    if " " not in part:
        return part in whole
    if part not in texts:
        return False
    end = r"(?!\w)" if part[-1].isalnum() else ""
    return re.search(rf"(?<!\w){re.escape(part)}{end}", texts) is not None


def missing_words() -> Iterator[str]:
    """Each text in italics that no source of a screen has, part by part."""
    for path in DOCUMENTS:
        if path.parent.name not in {"tutorial", "howto", "reference", "coming-from"}:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for text in ITALIC.findall(CODE.sub("", line).replace("**", "")):
                gone = [one for one in said(plain(text)) if not is_on_a_screen(one)]
                if gone and text not in NOT_OURS and not text.startswith(PUT_TOGETHER):
                    yield f"{path.relative_to(ROOT)}:{number}: {text} {gone}"


def test_words_of_screens_are_on_a_screen() -> None:
    assert list(missing_words()) == []


def test_the_tests_would_find_one() -> None:
    assert named_command("gpucommons budget list|set TEAM") == ("budget", "list")
    assert named_command("gpucommons bugdet list") is None
    assert "--gpus" in options(COMMANDS["submit",])
    assert OPTION.findall("gpucommons submit a.py --gpuz 1") == ["--gpuz"]
    assert said("Pool cloud may get 4 more nodes") == ["Pool cloud may get", "more nodes"]
    assert not is_on_a_screen("Press a button that was never there")
    assert is_on_a_screen("Train")
    assert not is_on_a_screen("train it")
    # Such words stand in many a sentence, and in code; no label is just that.
    assert [one for one in ("TRAIN", "whoever", "although") if is_on_a_screen(one)] == []
