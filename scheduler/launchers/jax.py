"""JAX: ``jax.distributed.initialize()`` without arguments finds all that it needs.

JAX reads the coordinator's address from a variable of its own; how many processes there are, and which
one this is, it takes from a cluster that it knows. So it is told in the names of Open MPI, the one that
has nothing but variables. A worker is one process with all its GPUs.
"""

from __future__ import annotations

from gpucommons.scheduler.launchers.launcher import Launcher, Start
from gpucommons.scheduler.launchers.worker_addresses import Gang, Worker

_VARIABLES = (
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_PORT",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "JAX_LOCAL_DEVICE_IDS",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_MCA_orte_hnp_uri",
)


def _starts(gang: Gang) -> tuple[Start, ...]:
    return tuple(Start(command=one.command, env=_variables(gang, one)) for one in gang.workers)


def _variables(gang: Gang, worker: Worker) -> dict[str, str]:
    first, size, rank = gang.workers[0], str(len(gang.workers)), str(worker.rank)
    port = str(first.ports[0])
    found = {
        "JAX_COORDINATOR_ADDRESS": f"{first.address}:{port}",
        "JAX_COORDINATOR_PORT": port,
        "JAX_NUM_PROCESSES": size,
        "JAX_PROCESS_ID": rank,
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{first.address}:{port}",
    }
    # Else JAX would take one GPU for each process that it finds on a machine.
    found["JAX_LOCAL_DEVICE_IDS"] = ",".join(str(one) for one in range(worker.processes))
    return found


JAX = Launcher(name="jax", starts=_starts, variables=_VARIABLES, module="jax")
