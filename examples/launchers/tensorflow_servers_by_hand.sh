#!/bin/sh
# What `gpucommons submit -f tensorflow_servers.yaml` does, by hand on one machine: three free ports, the whole
# cluster in TF_CONFIG for each process, the chief waited for, and the others, which never end, ended.
chief=${1:-23456} worker=${2:-23457} ps=${3:-23458}
cluster="{\"chief\": [\"127.0.0.1:$chief\"], \"worker\": [\"127.0.0.1:$worker\"], \"ps\": [\"127.0.0.1:$ps\"]}"
start() {
  TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$1\", \"index\": 0}}" \
    exec python tensorflow_servers.py
}
start worker &
started=$!
start ps &
started="$started $!"
start chief &
wait $!
ended=$?
kill $started
exit $ended
