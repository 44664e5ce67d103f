"""What runs in a job's workers, above the user's command, where a framework needs more than variables.

A launcher only says what each worker is started with. Some frameworks need a process beside the script
(a Ray node, Spark's master, ``mpirun``), or have workers that never end by themselves (parameter
servers): what starts those, and ends them with the first worker, is here. It runs in the job's own
environment, so only the standard library is imported, and files that are laid out beside it.
"""

#: Below ``gpucommons``, for those who lay it out where nothing of ours is installed.
FILES = (
    "gpu/linux/held_folders.py",
    *(
        f"scheduler/in_worker/{name}.py"
        for name in (
            "__init__",
            "__main__",
            "child_processes",
            "first_worker",
            "port_owners",
            "mpirun",
            "ray",
            "spark",
            "worker_messages",
        )
    ),
)
