"""The unit file starts what there is, with arguments that it takes, and ends nobody's work."""

import argparse
import configparser
import shlex
from pathlib import Path

from gpucommons.scheduler.up import add_arguments

UNIT = Path(__file__).parents[3] / "deploy/systemd/gpucommons.service"


def test_the_unit_starts_up_and_leaves_jobs_alone() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(UNIT.read_text())
    program, verb, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, verb) == ("gpucommons", "up")
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)
    parsed = parser.parse_args(arguments)
    assert parsed.state == Path("/var/lib/gpucommons")
    assert unit["Service"]["KillMode"] == "process"
