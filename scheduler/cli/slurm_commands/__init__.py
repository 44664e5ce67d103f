"""``gpucommons sbatch``, ``squeue`` and ``scancel``: for who has Slurm's scripts and habits.

A batch script becomes an ordinary job; what of its ``#SBATCH`` lines cannot be done here is refused,
what means nothing here is said. Only the command line knows Slurm: no other part may. Read
:mod:`.batch` first.
"""
