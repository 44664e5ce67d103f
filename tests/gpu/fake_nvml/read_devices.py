"""One look through ``gpucommons.gpu.nvml``, printed as JSON: the program of each scenario."""

import json
import sys
import time
from dataclasses import asdict

from gpucommons.gpu.nvml import NvmlTelemetry

telemetry = NvmlTelemetry()
readings = telemetry.read((), now_ms=time.time_ns() // 1_000_000)
json.dump(
    {
        "greeting": telemetry.greeting,
        "devices": [asdict(device) for device in telemetry.devices()],
        "links": [asdict(link) for link in telemetry.links],
        "readings": {device_id: asdict(reading) for device_id, reading in readings.items()},
    },
    sys.stdout,
)
telemetry.close()
