"""Two workers, of which the second cannot go on."""

import os
import time

print("worker", os.environ["GPUCOMMONS_RANK"], flush=True)
if os.environ["GPUCOMMONS_RANK"] == "1":
    time.sleep(2)  # the other one has begun, too
    raise ValueError("label 11 is none of the 10 classes")
time.sleep(30)
