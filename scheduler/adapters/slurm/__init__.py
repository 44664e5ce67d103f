"""Pools whose jobs are submitted to a Slurm that is there already.

Slurm is the judge of what runs; what happens inside a job is the business of the same supervisor as on a
workstation, which works through files of a shared folder. Nothing else of ours may be imported by name
from here, and nobody imports this. Read :mod:`.executor` first.
"""
