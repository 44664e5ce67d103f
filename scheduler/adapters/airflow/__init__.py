"""Airflow's tasks as jobs: submitted by a worker, waited for by the triggerer.

Airflow finds it by the entry point of its providers. It speaks to the client alone; what Airflow must
know before it loads anything stands in :mod:`.provider`. Read :mod:`.operator` first.
"""
