"""A command loads what it needs: each module says which commands it has, and only the typed one's is loaded."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module

import pytest

from gpucommons.scheduler.cli import main, options
from gpucommons.scheduler.cli.commands import MODULES, build_parser

_LOADED = (
    "import sys\nfrom gpucommons.scheduler.cli import main\n"
    "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
    "sys.stderr.write(' '.join(m for m in sys.modules))"
)


def _commands(parser: argparse.ArgumentParser) -> list[str]:
    (found,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return [*found.choices]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_commands_that_are_listed_for_it(module: str) -> None:
    parser = argparse.ArgumentParser()
    import_module(module).add_commands(parser.add_subparsers(), options.shared())

    assert tuple(_commands(parser)) == MODULES[module]


def test_no_two_modules_have_the_same_command_and_all_are_in_the_help() -> None:
    names = [name for found in MODULES.values() for name in found]

    assert len({*names}) == len(names)
    assert _commands(build_parser()) == names
    assert _commands(build_parser(["no-such-command"])) == names


def _loaded_by(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *words], capture_output=True, text=True, check=True
    )
    return {*done.stderr.split()}


def test_the_version_is_said_without_a_client_or_a_model() -> None:
    loaded = _loaded_by("--version")

    assert not loaded & {"httpx", "pydantic", "yaml"}
    assert not loaded & {*MODULES}


def test_a_command_loads_no_other_commands_options() -> None:
    loaded = _loaded_by("logs", "--help")

    # The package of `up` is loaded for the name of the state folder.
    assert loaded & {*MODULES} - {"gpucommons.scheduler.up"} == {
        "gpucommons.scheduler.cli.jobs.logs"
    }


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("jbos", "there is no command 'jbos'; did you mean jobs?"),
        ("xyzzy", "there is no command 'xyzzy'; see gpucommons --help"),
    ],
)
def test_a_mistyped_command_is_told_which_was_meant_in_place_of_a_list_of_all(
    word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word])

    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"gpucommons: error: {says}"
