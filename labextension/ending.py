"""A server that was stopped ends, also where a request was under way.

Jupyter stops its loop in the middle of requests; nobody tells a thread that one of them had (AnyIO's)
to end, Python waits for it for ever, and who waits for the server's GPU waits, too.
"""

from __future__ import annotations

import os
import threading
import time

#: For threads that end by themselves.
_PATIENCE_S = 3.0


def end_after_main(patience_s: float = _PATIENCE_S) -> None:
    """End this process where other threads hold it so long after its main thread is done."""
    threading.Thread(target=_end, args=(patience_s,), name="ending", daemon=True).start()


def _end(patience_s: float) -> None:
    main = threading.main_thread()
    main.join()
    time.sleep(patience_s)
    if any(not each.daemon for each in threading.enumerate() if each is not main):
        os._exit(0)
