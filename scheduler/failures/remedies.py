"""What helps against the errors that people meet most: a table of words to look for and of advice.

Advice is given where the words leave little doubt. Where they leave some, there is none: a wrong remedy
costs more time than a missing one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The kind of errors of a GPU whose memory was full.
GPU_MEMORY = "gpu-memory"
#: Of scripts that found none.
NO_GPU = "cuda"


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """What an error looks like, and what to do."""

    kind: str
    words: re.Pattern[str]
    advice: str


def _remedy(kind: str, words: str, advice: str) -> Remedy:
    return Remedy(kind=kind, words=re.compile(words, re.IGNORECASE), advice=advice)


#: The first that fits is given, so the narrower ones stand first.
REMEDIES = (
    _remedy(
        GPU_MEMORY,
        r"CUDA out of memory|OutOfMemoryError: (?:CUDA|HIP)|CUBLAS_STATUS_ALLOC_FAILED|hipErrorOutOfMemory"
        r"|RESOURCE_EXHAUSTED.{0,80}(?:alloc|memory)|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
        r"|OOM when allocating",
        "The GPU's memory was full: use a smaller batch or gradient checkpointing, or ask for a larger"
        " share of a GPU",
    ),
    _remedy(
        "memory",
        r"\bMemoryError\b|can't allocate memory|Cannot allocate memory|std::bad_alloc|oom-kill"
        r"|Unable to allocate .{0,40}for an array|DataLoader worker .{0,40}killed by signal: Killed",
        "The worker's memory was used up: ask for more memory per worker, or load less at once",
    ),
    _remedy(
        "module",
        r"ModuleNotFoundError|ImportError: (?:No module|cannot import|lib\w)|No module named"
        r"|cannot open shared object file",
        "The environment of the job lacks it: install it there, or choose an environment that has it",
    ),
    _remedy(
        "disk",
        r"No space left on device|Disk quota exceeded|Errno 28|Errno 122",
        "The disk is full: delete old checkpoints or results, or save less often",
    ),
    _remedy(
        "shared-memory",
        r"Bus error|/dev/shm|unable to (?:open|write to) shared memory",
        "Shared memory was full: use fewer data loader workers, or num_workers=0",
    ),
    _remedy(
        "nccl",
        r"\bNCCL\b.{0,120}(?:error|fail|timeout|abort|invalid)|ncclInternalError|ncclSystemError"
        r"|ncclUnhandledCudaError|ncclInvalidUsage|ncclRemoteError"
        r"|Watchdog caught collective operation timeout",
        "The workers' GPUs lost each other: see which worker's log ends first; NCCL_DEBUG=INFO tells more,"
        " and two workers on one GPU need the gloo backend",
    ),
    _remedy(
        "rendezvous",
        r"Address already in use|EADDRINUSE|Rendezvous\w{0,20}(?:Error|Timeout|closed)|DistStoreError"
        r"|DistNetworkError|Timed out (?:after|waiting).{0,80}(?:clients|workers|rank)"
        r"|TCPStore.{0,80}(?:timeout|timed out|failed)",
        "The workers did not find each other: take address and port from MASTER_ADDR and MASTER_PORT, and"
        " leave no port fixed in the script",
    ),
    _remedy(
        NO_GPU,
        r"not compiled with CUDA|Found no NVIDIA driver|no NVIDIA driver|no CUDA-capable device"
        r"|CUDA driver version is insufficient|no kernel image is available|CUDA initialization"
        r"|CUDA unknown error|No CUDA GPUs are available|device type CUDA is not available"
        r"|Attempting to deserialize object on a CUDA device|Could not load library libcu",
        "The script found no usable GPU: ask for one, and see that its framework is built for this node's"
        " driver (the CPU build of a framework sees none)",
    ),
    _remedy(
        "shape",
        r"size mismatch for|Error\(s\) in loading state_dict|Missing key\(s\) in state_dict"
        r"|Unexpected key\(s\) in state_dict|checkpoint.{0,80}(?:shape|mismatch)|shape mismatch",
        "What was saved is of another model: start anew, or give the model the sizes it was saved with",
    ),
    _remedy(
        "internet",
        r"Temporary failure in name resolution|Name or service not known|Max retries exceeded"
        r"|Network is unreachable|getaddrinfo failed|LocalEntryNotFoundError",
        "The node did not reach that address: bring the data or the model along, or to a shared folder",
    ),
    _remedy(
        "sign-in",
        r"\b401 Client Error|GatedRepoError|Invalid (?:user )?token|\b403 Client Error|wandb.{0,40}api_key",
        "It needs a sign-in: keep the token as a secret and name it in the job",
    ),
    _remedy(
        "permission",
        r"PermissionError|Permission denied|Operation not permitted|Read-only file system",
        "The job may not do that there: write below its working folder, and see who owns the file",
    ),
    _remedy(
        "command",
        r"command not found|: not found$|there is no command",
        "The environment of the job has no such command: install it there, or give its whole path",
    ),
    _remedy(
        "file",
        r"FileNotFoundError|No such file or directory|NotADirectoryError|can't open file",
        "The job runs from what was taken along at submit: see which files were left out, or give the path"
        " of a shared folder",
    ),
    _remedy(
        "arguments-missing",
        r"the following arguments are required",
        "The script needs these arguments: give them where the job is submitted",
    ),
    _remedy(
        "arguments",
        r"unrecognized arguments|error: argument |invalid choice:",
        "The script does not take these arguments: see its --help",
    ),
)  # fmt: skip


def remedy_for(text: str) -> Remedy | None:
    """The advice for an error, if there is one."""
    return next((one for one in REMEDIES if one.words.search(text)), None)
