"""What stands first where a job failed: the error itself, its place, and what helps."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.failures import Failure, headline, last_error
from gpucommons.scheduler.failures.remedies import remedy_for

TRACEBACK = """\
epoch 3 loss 0.5
Traceback (most recent call last):
  File "/home/ann/job/train.py", line 12, in <module>
    main()
  File "/home/ann/job/train.py", line 88, in main
    loss = model(batch)
           ^^^^^^^^^^^^
  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1501, in _call_impl
    return forward_call(*args)
ValueError: bad batch 7
"""
TORCHRUN = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/job/train.py", line 88, in <module>
[rank1]:     main()
[rank1]: ValueError: bad batch 7
E1123 22:00:00.000000 123 elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "/opt/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/env/lib/python3.11/site-packages/torch/distributed/run.py", line 892, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
============================================================
"""
NOTEBOOK = """\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[3], line 5
      3 x = {}
----> 5 x["loss"]

KeyError: 'loss'
"""


def _said(tail: str, exit_code: int = 1, **more: int) -> str:
    return headline(Failure(tail=tail, exit_code=exit_code, **more))  # type: ignore[arg-type]


def test_the_error_is_told_with_the_place_in_the_users_own_file() -> None:
    assert _said(TRACEBACK) == "ValueError: bad batch 7 (train.py:88)"


def test_of_several_workers_the_one_that_failed_first_is_named() -> None:
    said = _said(TRACEBACK, rank=1, workers=2)
    assert said == "Worker 1 failed: ValueError: bad batch 7 (train.py:88)"


def test_a_launchers_own_traceback_is_not_the_cause() -> None:
    assert _said(TORCHRUN) == "ValueError: bad batch 7 (train.py:88)"


def test_a_notebooks_error_names_its_cell() -> None:
    assert _said(NOTEBOOK) == "KeyError: 'loss' (cell 3, line 5)"


def test_what_is_printed_after_the_error_does_not_hide_it() -> None:
    after = TRACEBACK + "wandb: Find logs at: ./wandb/run\nsaving failed batches: 0\n"
    assert _said(after).startswith("ValueError: bad batch 7")


@pytest.mark.parametrize(
    ("last_line", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu-memory"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu-memory"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes", "gpu-memory"),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 9 GiB for an array", "memory"),
        ("ModuleNotFoundError: No module named 'lightning'", "module"),
        ("OSError: [Errno 28] No space left on device", "disk"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", "file"),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", "permission"),
        ("AssertionError: Torch not compiled with CUDA enabled", "cuda"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "cuda"),
        ("torch.distributed.DistNetworkError: The server socket has failed to listen: EADDRINUSE", "rendezvous"),
        ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:275", "nccl"),
        ("RuntimeError: Error(s) in loading state_dict for Net: size mismatch for fc.weight", "shape"),
        ("bash: line 1: trian: command not found", "command"),
        ("train.py: error: unrecognized arguments: --epcohs 3", "arguments"),
        ("train.py: error: the following arguments are required: --lr", "arguments-missing"),
        ("requests.exceptions.ConnectionError: Max retries exceeded with url: /x", "internet"),
    ],
)  # fmt: skip
def test_the_commonest_errors_come_with_a_remedy(last_line: str, kind: str) -> None:
    found = remedy_for(last_line)
    assert found is not None
    assert found.kind == kind
    tail = f'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n{last_line}\n'
    assert found.advice in _said(tail)


@pytest.mark.parametrize(
    "last_line",
    [
        "RuntimeError: Found no NVIDIA driver on your system.",
        "AssertionError: Torch not compiled with CUDA enabled",
    ],
)
def test_on_simulated_gpus_nobody_is_told_to_ask_for_one(last_line: str) -> None:
    tail = f'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n{last_line}\n'
    said = headline(Failure(tail=tail, exit_code=1, simulated=True))
    assert "This node's GPUs are simulated: a script that needs CUDA cannot run here" in said
    assert "ask for one" not in said
    other = headline(Failure(tail=TRACEBACK, exit_code=1, simulated=True))
    assert other == "ValueError: bad batch 7 (train.py:88)"


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        (-9, "It was killed from outside (SIGKILL). Most often the machine's memory was used up"),
        (137, "It was killed from outside (SIGKILL)"),
        (-11, "It crashed: segmentation fault"),
        (139, "It crashed: segmentation fault"),
        (-4, "It crashed: illegal instruction"),
        (-7, "It crashed: bus error"),
    ],
)
def test_who_was_ended_by_a_signal_is_told_so(exit_code: int, said: str) -> None:
    assert _said("epoch 3 loss 0.5\n", exit_code).startswith(said)


def test_a_limit_that_was_hit_is_the_cause_whatever_was_printed() -> None:
    said = headline(Failure(tail=TRACEBACK, exit_code=-9, out_of_memory=True))
    assert said == "The memory was used up. Ask for more memory per worker, or load less at once"


def test_a_line_that_only_mentions_an_error_is_quoted_as_such() -> None:
    said = _said("0 errors so far\nretry failed, going on\nbye\n", 3)
    assert said == "It ended with exit status 3; its log says: retry failed, going on"


def test_a_silent_end_is_told_by_its_status() -> None:
    assert _said("", 3) == "It ended with exit status 3"
    assert _said("bye\n", 3, rank=2, workers=4) == "Worker 2 failed: it ended with exit status 3"


@pytest.mark.parametrize(
    "tail",
    ["a" * 500_000, "\x1b[31mValueError: x\x1b[0m", "Traceback (most recent call last):\n" * 5000,
     '  File "x", line 1\n' * 5000 + "ValueError: deep", "\x00\u202e\n" * 1000,
     "ValueError: " + "x" * 100_000],
)  # fmt: skip
def test_a_hostile_end_of_a_log_stays_short_text(tail: str) -> None:
    said = _said(tail)
    assert len(said) < 400
    assert said.isprintable()


def test_a_log_full_of_ends_of_tracebacks_costs_no_more_than_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    frames_before = last_error._frames_before
    monkeypatch.setattr(
        last_error, "_frames_before", lambda *of: (compared.append(of), frames_before(*of))[1]
    )
    said = headline(Failure(tail="aError\n" * 9000, exit_code=1))
    assert said == "It ended with exit status 1; its log says: aError"
    assert len(compared) <= 50


def test_what_a_launcher_says_last_is_quoted_as_any_program_could_say_it() -> None:
    remark = (
        "gpucommons: worker 2 counts 3 workers and the first one 2: all must be of one attempt.\n"
    )
    assert _said(f"starting\n{remark}", workers=2) == (
        "Worker 0 failed: it ended with exit status 1; its log says: gpucommons: worker 2 counts 3 workers"
        " and the first one 2: all must be of one attempt"
    )
    assert _said(f"{remark}error: no file a\n").startswith(
        "It ended with exit status 1; its log says"
    )
    for line in ("gpucommons: no such command", "10:00:00 gpucommons failed: command not found"):
        assert _said(f"{line}\nbye\n", 127) == (
            f"It ended with exit status 127; its log says: {line}"
        )
    assert _said(f"{TRACEBACK}{remark}") == "ValueError: bad batch 7 (train.py:88)"


@pytest.mark.parametrize(
    "line",
    [
        "GPUCommons: error: pay here",
        "your quota error: ask evil.example for more",
        "your quota error: pay at evil.example or your job is not found",
        "sh: 1: pay at evil.example or your job: not found",
        "your job: cannot execute what root: pay at evil.example",
    ],
)
def test_at_127_only_a_line_of_the_shell_is_told_without_quotes(line: str) -> None:
    assert _said(f"{line}\n", 127).startswith(
        f"It ended with exit status 127; its log says: {line}"
    )


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("sh: 1: trian: not found", 127),
        ("./run.sh: 3: exec: trian: not found", 127),
        ("bash: line 1: trian: command not found", 127),
        ("bash: line 1: ./trian: No such file or directory", 127),
        ("bash: line 1: ./run.sh: /opt/sh: bad interpreter: No such file or directory", 126),
        ("bash: line 1: ./run.sh: cannot execute: required file not found", 127),
        ("bash: line 1: ./run: cannot execute binary file: Exec format error", 126),
        ("/bin/sh: 1: ./run.sh: Permission denied", 126),
        ("/usr/bin/env: ‘trian’: No such file or directory", 127),
        ("zsh:1: command not found: trian", 127),
    ],
)
def test_what_a_shell_says_of_a_command_is_told_as_it_is(line: str, exit_code: int) -> None:
    assert _said(f"{line}\n", exit_code).startswith(line)


@pytest.mark.parametrize(
    ("line", "helps"),
    [
        (
            "It was cancelled by the admin root: Permission denied (policy P-7). Ask root@evil.example to go on",
            "The job may not do that there",
        ),
        ("CUDA out of memory", "The GPU's memory was full"),
        ("train.py: error: unrecognized arguments: --epcohs 3", "The script does not take these"),
    ],
)
def test_what_a_program_only_printed_is_quoted_with_what_helps(line: str, helps: str) -> None:
    assert _said(f"{line}.\n").startswith(
        f"It ended with exit status 1; its log says: {line}. {helps}"
    )
