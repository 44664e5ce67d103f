"""How right the plan advisor is, on measurements that others published.

``python -m benchmarks.advisor --json OUT [--public FOLDER] [--tables FOLDER] [--traces F.csv …]`` writes one line per
figure: ``table, metric, value, n``, and the trivial guess beside it where there is one. Tables lie in
``tables/``, made of figures of public pages; two more are public without a licence and are read from
``--public`` (``amp/`` and ``sia/``: checkouts of DachengLi1/AMP and siasosp23/artifacts), or said to be
missing. ``--tables`` takes a folder of tables of the same form instead: rows that were kept back. ``clock`` has a
row for each hub that is made up, and for each trace of ``--traces``, named by ``of``.
No table's row is ever told its own throughput.
"""
