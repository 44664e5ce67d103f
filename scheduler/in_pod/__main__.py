"""``python bin/worker -- COMMAND``: in a pod, the way into the copied modules."""

import sys

from gpucommons.scheduler.in_pod.command import main

sys.exit(main())
