"""A server that was stopped answers no more, and ends, also where a request was under way.

Connections that pages have open outlive the order to stop, and kernels go one after the other: a page
that misses its kernel in an answer takes it for dead, and does not ask for it again when it is back.

Jupyter stops its loop in the middle of requests; nobody tells a thread that one of them had (AnyIO's)
to end, Python waits for it for ever, and who waits for the server's GPU waits, too.
"""

from __future__ import annotations

import os
import threading
import time
from http import HTTPStatus

from tornado.routing import AnyMatches, Rule
from tornado.web import Application, RequestHandler

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


def answer_no_more(application: Application) -> None:
    """Refuse what is asked from now on, as a proxy does whose server is gone; sockets stay open."""
    # Before all others: ``add_handlers`` would put it behind those that extensions have added.
    application.default_router.rules.insert(0, Rule(AnyMatches(), _Stopping))


class _Stopping(RequestHandler):
    def check_xsrf_cookie(self) -> None:
        """Nothing is done here that could be forged."""

    def prepare(self) -> None:
        self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
        self.set_header("Connection", "close")
        self.finish({"message": "This notebook server is being stopped."})
