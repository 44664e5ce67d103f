"""Where jobs' files last: a folder that all replicas mount, or a bucket.

What runs in a pod to bring them lies in `in_pod`, but for `prepare`, which pods start by its name.
Rows of the database are in `store`. Read `base` first, then `job_files`.
"""
