"""What NVIDIA's container runtime does, for pretended cards: a wrapper around runc.

A container whose environment names devices in `NVIDIA_VISIBLE_DEVICES` gets the driver's library
mounted, here the fake NVML with its state; one that says `void` or nothing gets none. So an agent
or a job finds in its pod what it would find on a node with GPUs.
"""

import json
import sys
from pathlib import Path
from typing import Any

INSIDE = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
STATE_INSIDE = "/run/fake-nvml-state"
NO_DEVICES = {"", "void", "none"}

WRAPPER = """\
#!/bin/sh
# Only `create` looks at the container; all else goes straight through.
for word in "$@"; do
  [ "$word" = create ] && {python} -IS {script} {library} {state} "$@"
done
exec {runc} "$@"
"""


def write_wrapper(path: Path, *, runc: Path, library: Path, state: Path) -> Path:
    """Write the wrapper of one node, for containerd to call in place of runc."""
    path.write_text(
        WRAPPER.format(
            python=sys.executable, script=__file__, library=library, state=state, runc=runc
        )
    )
    path.chmod(0o755)
    return path


def with_driver(config: dict[str, Any], *, library: str, state: str) -> dict[str, Any]:
    """The container's configuration with the driver's library, where it names devices."""
    environment = dict(line.split("=", 1) for line in config["process"].get("env", []))
    if environment.get("NVIDIA_VISIBLE_DEVICES", "") in NO_DEVICES:
        return config
    mounts = [
        {
            "destination": inside,
            "source": source,
            "type": "bind",
            "options": ["rbind", "nosuid", "nodev", mode],
        }
        for inside, source, mode in ((INSIDE, library, "ro"), (STATE_INSIDE, state, "rw"))
    ]
    process = config["process"] | {
        "env": [*config["process"]["env"], f"FAKE_NVML_STATE={STATE_INSIDE}"]
    }
    return config | {"process": process, "mounts": [*config["mounts"], *mounts]}


def main() -> None:
    """Change the configuration in the bundle that runc's command line names."""
    library, state, *words = sys.argv[1:]
    bundle = Path(words[words.index("--bundle") + 1])
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    changed = with_driver(config, library=library, state=state)
    if changed is not config:
        path.write_text(json.dumps(changed))


if __name__ == "__main__":
    main()
