"""What a process does on a signal is inherited, and is to be nobody's surprise.

Python ignores SIGPIPE and SIGXFSZ, shells ignore SIGINT in what they start in the background, and
``nohup`` ignores SIGHUP. What is ignored stays ignored in every program that is started from there: a
user's ``yes | head`` would complain, their Ctrl-C and their launcher's SIGINT would do nothing.
"""

from __future__ import annotations

import signal
from contextlib import suppress


def hear_all() -> None:
    """Give every ignored signal its default again: for just before a user's command is run."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            with suppress(OSError):  # the system's own may not be set
                signal.signal(number, signal.SIG_DFL)
