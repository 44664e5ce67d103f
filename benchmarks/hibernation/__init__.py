"""What saving and waking live processes costs, keeps, and lets nobody do.

``python -m benchmarks.hibernation --json OUT`` prints one JSON object a row: ``job``, ``kernel``,
``kills``, ``safety``, ``idle``. It needs a CRIU (``make setup-hibernation``), and no GPU.
"""
