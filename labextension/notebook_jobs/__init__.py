"""A backend of jupyter-scheduler: Lab's *Notebook Jobs* as jobs and schedules of ours.

Here lives what turns its models into ours and back; it keeps nothing of its own but copies of notebooks
for their download. Only jupyter-scheduler loads it, by its class names. Read :mod:`.backend` first.
"""
