"""A stopped server ends, whatever threads of its requests do."""

from __future__ import annotations

import subprocess
import sys

_LEFT = """
import threading
from gpucommons.labextension.ending import end_after_main
threading.Thread(target=threading.Event().wait).start()
end_after_main(0.1)
print("done", flush=True)
"""


def test_a_thread_that_nobody_tells_to_end_does_not_hold_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LEFT], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "done\n"
