"""What would happen if: cycles on a copy of the cluster, for quotes, sizes of the form and *why*.

Nothing here is stored or carried out; which nodes an autoscaler is to bring (`scale_up`) is shown to it by
the executor.
Read `quotes` first.
"""
