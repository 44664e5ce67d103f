"""A job that names no launcher gets the one that its command or script proposes."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.scripts.frameworks import read_script
from gpucommons.scheduler.scripts.proposed_launcher import of_command, of_script


def test_the_script_proposes_with_its_line() -> None:
    text = b"import torch.distributed as dist\n\ndist.init_process_group('nccl')\n"
    found = of_script("train.py", read_script("train.py", text))
    assert (found.launcher, found.why) == (
        "torchrun",
        "train.py (line 3) starts torch.distributed",
    )


def test_what_joins_nobody_stays_plain() -> None:
    found = of_script("a.py", read_script("a.py", b"print(1)\n"))
    assert (found.launcher, found.why) == ("plain", "no framework that we know is started in a.py")


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (["deepspeed", "a.py"], "deepspeed"),
        (["torchrun", "a.py"], "torchrun"),
        (["/opt/bin/torchrun", "a.py"], "torchrun"),
        (["python", "-u", "-m", "torch.distributed.run", "a.py"], "torchrun"),
        (["python3", "-m", "torch.distributed.launch", "a.py"], "torchrun"),
    ],
)
def test_a_command_that_joins_workers_says_so_itself(command: list[str], launcher: str) -> None:
    found = of_command(command)
    assert found is not None
    assert (found.launcher, found.why) == (launcher, f"the command is {launcher}")


@pytest.mark.parametrize(
    "command",
    [["accelerate", "launch", "a.py"], ["python", "-m", "accelerate.commands.launch", "a.py"]],
)
def test_accelerate_launch_says_so_as_well(command: list[str]) -> None:
    found = of_command(command)
    assert found is not None
    assert (found.launcher, found.why) == ("accelerate", "the command is accelerate launch")


@pytest.mark.parametrize(
    ("text", "launcher"),
    [
        (b"from accelerate import Accelerator\nAccelerator()\n", "accelerate"),
        (b"import deepspeed\ndeepspeed.initialize()\n", "deepspeed"),
    ],
)
def test_what_stands_on_torch_has_its_own_launcher(text: bytes, launcher: str) -> None:
    assert of_script("a.py", read_script("a.py", text)).launcher == launcher


def test_other_commands_say_nothing() -> None:
    assert of_command(["python", "torchrun.py"]) is None
    assert of_command(["python", "a.py", "-m", "torch.distributed.run"]) is None
    assert of_command(["python", "-m"]) is None
    assert of_command(["accelerate", "config"]) is None
    assert of_command([]) is None


def test_nothing_is_proposed_for_more_code_than_is_read_and_nothing_claimed_of_it() -> None:
    text = b"import torch.distributed as dist\ndist.init_process_group()\n" + b"x = 1\n" * 11_000
    found = of_script("a.py", read_script("a.py", text))
    assert (found.launcher, found.why) == (
        "plain",
        "a.py has more than 64 KiB of code and was not read",
    )


def test_that_a_long_script_imports_ours_is_still_known() -> None:
    text = b"from gpucommons.scheduler.training import run\n" + b"x = 1\n" * 11_000
    assert read_script("a.py", text).uses_ours


def test_the_module_that_torchtitan_trains_with_is_joined_by_torchrun() -> None:
    found = of_command(["python", "-m", "torchtitan.train", "--job.config_file", "a.toml"])
    assert found is not None
    assert (found.launcher, found.why) == ("torchrun", "the command is torchtitan.train")
    text = b"from megatron.training import pretrain\n"
    of_file = of_script("pretrain_gpt.py", read_script("pretrain_gpt.py", text))
    assert of_file.launcher == "torchrun"
    assert "starts Megatron-LM's training" in of_file.why
