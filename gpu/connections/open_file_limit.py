"""How many files a process of ours may have open: one per connection, and people come by the hundred."""

from __future__ import annotations

import resource

#: What we start has the same limit, and some programs go through all numbers up to it.
_ENOUGH = 1 << 16


def raise_limit() -> int:
    """Allow this process as many as it may allow itself; returns how many. The usual 1024 is a relic."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """How many this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
