"""Kubeflow Trainer v2: its TrainJobs wait in our line, and jobs of ours can be sent out as TrainJobs.

An executor (:mod:`.executor`) that resumes and suspends them, and a client of the API (:mod:`.intake`)
that hands them in. Nothing else names this folder. Read :mod:`.trainjobs` first.
"""
