"""What ``kubectl explain`` says of the fields that people write."""

from __future__ import annotations

JOB = {
    "user": "Whose job it is: the name in JupyterHub. It must be the one who applies this.",
    "name": "Base of the readable name (digits becomes digits-7); default: the object's name.",
    "kind": "training (default) or retrain.",
    "team": "May be left out: the namespace gives the team.",
    "pools": "In order of preference; default: the pools in which the team has training quota.",
    "roles": "The workers. Plain jobs have one role.",
    "min_workers": "Elastic jobs: fewest workers of the first role.",
    "max_workers": "Elastic jobs: most workers of the first role.",
    "priority": "low, normal or high; the team's policy says which are allowed.",
    "over_quota": "Whether it may run on borrowed GPUs, which can be taken back. Default: true.",
    "max_run_s": "Longest run time in seconds, all attempts together.",
    "start_timeout_s": "All workers run by then, or all are withdrawn. Default: 300.",
    "after": "Jobs that must have succeeded before, by name or id.",
    "not_before_ms": "Not started before this time, in UTC milliseconds.",
    "near": "Rather beside these jobs, by name or id, where that costs nothing.",
    "data": "Rather where these sets of data lie (node labels data.gpucommons.io/NAME).",
    "parent": "Id of the job that this one belongs to (a sweep, a retrain).",
    "plan": "Id of the plan that it follows, of an answer to advise.",
    "resume_from": "Job of the same owner and team, by name or id: go on from what it saved last.",
    "launcher": "How workers find each other: auto (default, as the command proposes) or one by name.",
    "snapshot": "SHA-256 of an uploaded snapshot of files, unpacked into the working folder.",
    "working_dir": "Folder within the snapshot in which the command runs.",
    "environment": "Image in which it runs; the team's policy says which are allowed.",
    "links": "Files the snapshot left out, linked from the owner's home where jobs see it.",
    "links_from": "Folder below the owner's home that the links lead to.",
    "env": "Variables of the workers.",
    "secrets": "Variables that are filled from secrets: variable to name of the secret.",
    "checkpoints_kept": "How many checkpoints are kept. Default: 3.",
    "max_restarts": "How often it is started again after it failed by itself. Default: 0.",
    "results_to": "Folder of the user into which results are copied.",
    "exit_after_signal": "What an exit with 0 after a signal means: preempted (default) or success.",
    "hibernation": "False: its processes are never saved to disk when it is stopped.",
    "notice_signal": "Sent when a stop is announced: SIGUSR1 or none. Default: as the pool says.",
    "labels": "Own labels, shown with the job.",
}
ROLE = {
    "name": "worker, if left out.",
    "count": "How many of these. Default: 1.",
    "gpu_memory_mib": "The smallest slice with so much GPU memory, in MiB; beside milli_gpu, the least it must have.",
    "milli_gpu": "Share of a GPU for each: 1000 is one GPU, 250 a quarter, 2000 two, 0 none.",
    "gpu_kind": "Kind of GPU, as the pools name it.",
    "cpu_milli": "Cores in thousandths. Default: 1000.",
    "memory_mib": "Memory in MiB. Default: 1024.",
    "command": "What runs, a list of words.",
}
TEAM = {
    "parent": "The department; quotas live on teams without children.",
    "groups": "Groups of JupyterHub whose members belong to the team.",
    "members": "Members named one by one.",
    "leads": "Users who see and steer everything of this team.",
    "quotas": "What the team may hold, by pool.",
    "policy": "What the team's members may ask for; a refusal names the rule.",
}
QUOTA = {
    "fixed_milli_gpu": "For notebooks; never taken back. 1000 is one GPU.",
    "guaranteed_milli_gpu": "For training; can always be won back.",
    "limit_milli_gpu": "Most of guaranteed and borrowed together; none if left out.",
    "over_quota_weight": "Weight when idle GPUs are divided; 0 borrows nothing. Default: 1.",
}
