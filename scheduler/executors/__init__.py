"""What runs work: processes of this machine, pods of a cluster, or a script for tests.

An executor never decides. What supervisors start by name (`worker`, `errand`) keeps its name.
Read `base` first, then `local.local`; `plugin` says how other packages bring one.
"""
