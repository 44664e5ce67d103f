"""The tour: the walk-throughs, played against the real product on simulated GPUs.

A real hub, proxy, scheduler, agent and culler with real processes; nothing is faked but the GPUs.
``python -m benchmarks.tour`` prints a timeline and, last, one JSON line with the figures.
"""
