#!/bin/sh
# What `gpucommons submit --workers 2 --launcher ray ray_tasks.py` does, by hand on one machine: a head, a
# second node, the script, and all of it ended again.
port=${1:-6379}
ray start --head --port "$port" --num-cpus 1 --include-dashboard false || exit 1
ray start --address "127.0.0.1:$port" --num-cpus 1 || exit 1
RAY_ADDRESS="127.0.0.1:$port" python ray_tasks.py
ended=$?
ray stop
exit $ended
