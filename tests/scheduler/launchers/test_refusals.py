"""What no launcher can start is refused with what to leave out."""

from __future__ import annotations

import pytest

from gpucommons.scheduler.launchers import AUTO, LAUNCHERS, refusal
from gpucommons.scheduler.launchers.launcher import Asked
from gpucommons.scheduler.models import JobRequest


def asked(*command: str, variables: tuple[str, ...] = (), **roles: int) -> Asked:
    return Asked(roles=roles or {"worker": 2}, command=command, variables=variables)


@pytest.mark.parametrize(
    ("launcher", "what", "why"),
    [
        ("torchrun", asked("python", variables=("WORLD_SIZE",)), "The variable WORLD_SIZE is set by"),
        ("torchrun", asked("torchrun", "--nnodes", "3", "a.py"), "--nnodes 3 and 2 workers disagree"),
        ("torchrun", asked("torchrun", "--nnodes=1:4", "a.py"), "--nnodes 1:4 and 2 workers disagree"),
        ("torchrun", asked("torchrun", "--standalone", "a.py"), "keeps each worker alone"),
        ("torchrun", asked("torchrun", "--master_port=29500", "a.py"), "chosen for each attempt"),
        ("torchrun", asked("torchrun", "--node_rank=0", "a.py"), "--node-rank is chosen for each"),
        ("torchrun", asked("torchrun", "--master-addr", "me", "a.py"), "--master-addr is chosen for"),
        ("torchrun", asked("torchrun", "-m", "--node-rank", "0", "a"), "--node-rank is chosen for each"),
        ("torchrun", asked("python", "-m", "torch.distributed.run", "--standalone", "a.py"), "alone"),
        ("torchrun", asked("python", "-m", "torch.distributed.launch", "--nnodes=3", "a.py"), "disagree"),
        ("torchrun", asked("torchrun", "--node-r", "0", "a.py"), "--node-rank is chosen for each"),
        ("torchrun", asked("torchrun", "--rdzv_e=me:1", "a.py"), "--rdzv-endpoint is chosen for"),
        ("torchrun", asked("torchrun", "--stand", "a.py"), "keeps each worker alone"),
        ("torchrun", asked("torchrun", "--rdzv-b", "etcd-v2", "a.py"), "needs a service that a job"),
        ("accelerate", asked("accelerate", "launch", "--num_machines", "3", "a.py"), "and 2 workers disagree"),
        ("accelerate", asked("accelerate", "launch", "--num-processes=4", "a.py"), "leave it out, and ask"),
        ("accelerate", asked("accelerate", "launch", "-q", "--machine-rank=0", "a"), "--machine_rank is chosen"),
        ("accelerate", asked("accelerate", "launch", "--use_fsdp", "--gpu_ids", "0", "a.py"), "--gpu_ids is"),
        ("accelerate", asked("python", variables=("ACCELERATE_USE_CPU",)), "ACCELERATE_USE_CPU is set by"),
        ("deepspeed", asked("deepspeed", "--num_gpus=2", "a.py"), "deepspeed --num_gpus is of DeepSpeed's"),
        ("deepspeed", asked("deepspeed", "--hostfile", "hosts", "a.py"), "deepspeed --hostfile is of"),
        ("deepspeed", asked("deepspeed"), "deepspeed needs a script"),
        ("tensorflow", asked("python", variables=("TF_CONFIG",)), "The variable TF_CONFIG is set by"),
        ("tensorflow", asked("python", worker=2, ps=1), "serve a chief"),
        ("tensorflow", asked("python", chief=1, trainer=2), "knows no role 'trainer'"),
        ("tensorflow", asked("python", chief=2, worker=2), "one chief"),
        ("mpi", asked("mpirun", "-n", "2", "a.out"), "leave it and its options out"),
        ("jax", asked("python", variables=("JAX_COORDINATOR_ADDRESS",)), "JAX_COORDINATOR_ADDRESS is"),
    ],
)  # fmt: skip
def test_ranks_that_would_disagree_are_refused(launcher: str, what: Asked, why: str) -> None:
    assert why in (refusal(launcher, what) or "")


@pytest.mark.parametrize(
    ("launcher", "what"),
    [
        ("plain", asked("python", variables=("WORLD_SIZE", "TF_CONFIG"))),
        ("torchrun", asked("torchrun", "--nnodes=2", "--nproc-per-node", "1", "a.py")),
        ("torchrun", asked("python", "a.py", "--nnodes", "9")),
        ("torchrun", asked("torchrun", "a.py", "--master-port", "5", "--standalone")),
        ("torchrun", asked("torchrun", "--nproc_per_node", "2", "-m", "a", "--node-rank", "5")),
        ("torchrun", asked("torchrun", "--use_env", "--tee=3", "a.py", "--nnodes", "9")),
        ("torchrun", asked("torchrun", "--rdzv-backend=c10d", "--rdzv-conf", "timeout=9", "a.py")),
        ("torchrun", asked("torchrun", "--max", "3", "a.py", "--node-rank", "1")),
        ("torchrun", asked("torchrun", "--", "a.py", "--nnodes", "9")),
        ("accelerate", asked("accelerate", "launch", "--num_machines=2", "a.py", "--gpu_ids", "0")),
        ("accelerate", asked("accelerate", "launch", "--mixed_precision", "bf16", "-m", "a")),
        ("accelerate", asked("accelerate", "config")),
        ("deepspeed", asked("deepspeed", "--no_local_rank", "a.py", "--num_gpus", "9")),
        ("tensorflow", asked("python", chief=1, worker=2, evaluator=1)),
        ("tensorflow", asked("python", trainer=2)),
        ("tensorflow", asked("python", chief=1, worker=2, ps=2)),
    ],
)
def test_what_agrees_is_not(launcher: str, what: Asked) -> None:
    assert refusal(launcher, what) is None


@pytest.mark.parametrize("name", [AUTO, *LAUNCHERS])
def test_every_launcher_can_be_asked_for(name: str) -> None:
    role = {"command": ["python", "train.py"]}
    request = JobRequest.model_validate({"name": "a", "roles": [role], "launcher": name})
    assert request.launcher == name
