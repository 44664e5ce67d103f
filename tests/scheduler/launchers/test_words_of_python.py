"""What a launcher hands on of a command that starts Python, and what it leaves as it is."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.launchers.launcher import script_words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -u train.py --lr 1", ("train.py", "--lr", "1")),
        ("env A=1 /opt/bin/python3 -m package", ("-m", "package")),
        ("/usr/bin/python3 -c pass", None),
        ("python3.11 -O train.py", None),
        ("python -u -X faulthandler train.py", None),
        ("python -", None),
        ("python", None),
        ("bash train.sh", None),
    ],
)
def test_options_of_python_that_a_launcher_does_not_know_leave_the_command_as_it_is(
    command: str, words: tuple[str, ...] | None
) -> None:
    assert script_words(command.split()) == words
