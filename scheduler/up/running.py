"""What can be known of a ``gpucommons up`` that runs on a state folder, without asking any part of it."""

from __future__ import annotations

import json
from pathlib import Path

from gpucommons.scheduler.up.hub_files import FACTS_FILE
from gpucommons.scheduler.up.state_folder import read_pids
from gpucommons.scheduler.up.supervision import same_process


def runs_with_shared_account(root: Path) -> bool:
    """Whether an ``up`` runs there whose users share the account that started it, as in the demo.

    False where nothing runs, or where it is another account's: then nobody here can say.
    """
    try:
        runs = any(same_process(pid, created) for _, pid, created in read_pids(root))
        facts = json.loads((root / FACTS_FILE).read_text()) if runs else {}
    except (OSError, ValueError, KeyError):
        return False
    return isinstance(facts, dict) and facts.get("admission") in ("one", "trusted")
