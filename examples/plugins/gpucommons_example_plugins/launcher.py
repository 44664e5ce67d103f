"""A launcher: each worker is told where all of them are."""

from gpucommons.scheduler.launchers import Asked, Gang, Launcher, Start


def starts(gang: Gang) -> tuple[Start, ...]:
    hosts = ",".join(f"{worker.address}:{worker.ports[0]}" for worker in gang.workers)
    return tuple(
        Start(command=worker.command, env={"HOSTS": hosts, "HOST_NUMBER": str(worker.rank)})
        for worker in gang.workers
    )


def refusal(asked: Asked) -> str | None:
    if asked.workers < 2:
        return "hostfile joins several workers: ask for two or more."
    return None


HOSTFILE = Launcher(
    name="hostfile",
    starts=starts,
    refusal=refusal,
    variables=("HOSTS", "HOST_NUMBER"),
    told_bytes=64,
)
