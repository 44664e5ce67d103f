#!/bin/sh
# Caffe in a container, in its own folder: `gpucommons submit --env IMAGE --gpus 1 -- sh train_caffe.sh`.
# Caffe saves and leaves at SIGINT and does not know SIGTERM, with which jobs are stopped. What it saved lies in
# the working folder, which is there again when the job goes on. 143 says: stopped, not done.
last=$(ls -t snapshots/*.solverstate 2> /dev/null | head -n 1)
stopped=
trap 'stopped=1' TERM
# All processes of a job hear SIGTERM, by which Caffe would end at once.
(trap '' TERM && exec caffe train --solver=solver.prototxt --sigint_effect=stop ${last:+--snapshot="$last"}) &
trained=$!
while kill -0 "$trained" 2> /dev/null; do
  [ -z "$stopped" ] || kill -INT "$trained" # again and again: Caffe does not hear it while it loads
  sleep 1
done
wait "$trained"
status=$?
[ -z "$stopped" ] || exit 143
exit "$status"
