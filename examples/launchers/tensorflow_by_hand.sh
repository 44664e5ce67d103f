#!/bin/sh
# What `gpucommons submit --workers 2 tensorflow_workers.py` does, by hand on one machine: two free ports,
# the whole cluster in TF_CONFIG for each worker, both started, both waited for.
first=${1:-23456}
second=${2:-23457}
cluster="{\"worker\": [\"127.0.0.1:$first\", \"127.0.0.1:$second\"]}"
for index in 0 1; do
  TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"worker\", \"index\": $index}}" \
    python tensorflow_workers.py &
  started="$started $!"
done
for process in $started; do
  wait "$process" || exit 1
done
