#!/bin/sh
# Caffe in a container, in its own folder: `gpucommons submit --env IMAGE --gpus 1 -- sh train_caffe.sh`.
# Caffe saves and leaves at SIGINT and does not know SIGTERM, with which jobs are stopped. What it saved lies in
# the working folder, which is there again when the job goes on. 143 says: stopped, not done.
last=$(ls -t snapshots/*.solverstate 2> /dev/null | head -n 1)
stopped= trained=
trap 'stopped=1; [ -z "$trained" ] || kill -INT "$trained"' TERM
caffe train --solver=solver.prototxt --sigint_effect=stop ${last:+--snapshot="$last"} &
trained=$!
[ -z "$stopped" ] || kill -INT "$trained" # the stop came while it was begun
wait "$trained"
status=$?
while kill -0 "$trained" 2> /dev/null; do # a signal ends `wait`, not Caffe
  wait "$trained"
  status=$?
done
[ -z "$stopped" ] || exit 143
exit "$status"
