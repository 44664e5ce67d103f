"""How right the plan advisor is, on measurements that others published.

``python -m benchmarks.advisor --json OUT [--public FOLDER] [--tables FOLDER]`` writes one line per
figure: ``table, metric, value, n``, and the trivial guess beside it where there is one. Tables lie in
``tables/``, made of figures of public pages; two more are public without a licence and are read from
``--public`` (``amp/`` and ``sia/``: checkouts of DachengLi1/AMP and siasosp23/artifacts), or said to be
missing. ``--tables`` takes a folder of tables of the same form instead: rows that were kept back.
No table's row is ever told its own throughput.
"""
