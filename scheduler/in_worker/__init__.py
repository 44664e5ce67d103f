"""What runs in a job's workers, above the user's command, where a framework needs more than variables.

A launcher only says what each worker is started with. Some frameworks need a process beside the script
(a Ray node, Spark's master, ``mpirun``), or have workers that never end by themselves (parameter
servers): what starts those, and ends them with the first worker, is here. It runs in the job's own
environment, so only the standard library is imported.
"""

#: Of this folder, for those who lay it out where nothing of ours is installed.
FILES = (
    "__init__.py",
    "__main__.py",
    "child_processes.py",
    "first_worker.py",
    "port_owners.py",
    "mpirun.py",
    "ray.py",
    "spark.py",
    "worker_messages.py",
)
