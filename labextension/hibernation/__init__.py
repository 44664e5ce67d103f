"""Kernels that outlive their server: saved whole when it stops, woken under their ids when it starts.

What a saved process is and how it is made lies in ``gpu.hibernation``. Where that does not work,
kernels are started and ended as Jupyter does it, and nothing here is noticed.
Read `keeper` first, then `provisioner`, `saving` and `waking`.
"""
