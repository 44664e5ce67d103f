"""The wire format of jobs, their attempts and files, and why they wait.

Only fields and their bounds; rules that need the cluster live in the intake.
Read `jobs` first.
"""
