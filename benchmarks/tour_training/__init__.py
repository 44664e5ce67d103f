"""The tour of training: every framework, drills, sweeps, schedules, pipelines, elastic jobs, spot notices.

The mechanism is that of ``benchmarks.tour`` (machine, timeline, checks) and of
``benchmarks.real_scripts`` (a framework's script, preempted once). Read ``__main__`` first.
"""
