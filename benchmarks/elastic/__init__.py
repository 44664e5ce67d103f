"""What elastic jobs win on a trace: rigid, half of the multi-GPU jobs elastic, all of them.

``step_times.csv`` is made of measurements of Pollux's authors (petuum/adaptdl, branch osdi21-artifact,
commit de25dcc, ``simulator/traces``, Apache-2.0): seconds of one step, and of its part that waits for
other GPUs, of six trainings on as few nodes of four T4 as hold so many GPUs; means, four digits.
Read `__main__` first.
"""
