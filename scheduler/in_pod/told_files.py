"""What a job says by files in its attempt's folder, by their names alone."""

from __future__ import annotations

#: ``should_stop`` answered yes.
TOLD_FILE = ".told-to-stop"
#: The work is done.
FINISHED_FILE = ".finished"
