"""Where jobs' files last: a folder that all replicas mount, or a bucket.

What runs in a pod to bring them lies in `in_pod`, but for `prepare`, which pods start by its name.
Read `base` first, then `job_files`.
"""
