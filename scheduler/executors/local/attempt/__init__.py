"""One attempt on this machine: its folder, its plan, its files, and the processes below its supervisor.

Only what is needed beside every job is imported here: one supervisor runs per attempt.
Read `attempt_folder` first, then `plan`.
"""
