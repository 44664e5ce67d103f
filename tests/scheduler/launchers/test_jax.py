"""JAX finds the coordinator, the count and its own number without an argument."""

from __future__ import annotations

from gangs import a_gang

from gpucommons.scheduler.launchers import starts


def test_a_process_is_told_its_number_and_where_the_first_answers() -> None:
    _, second = starts("jax", a_gang(gpus=0))
    assert second.env == {
        "JAX_COORDINATOR_ADDRESS": "host-0:7000",
        "JAX_COORDINATOR_PORT": "7000",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
        "JAX_LOCAL_DEVICE_IDS": "0",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_MCA_orte_hnp_uri": "0.0;tcp://host-0:7000",
    }


def test_a_process_has_all_gpus_of_its_worker() -> None:
    first, _ = starts("jax", a_gang(gpus=4))
    assert first.env["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3"
