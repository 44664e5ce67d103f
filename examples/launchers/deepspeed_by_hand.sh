#!/bin/sh
# What `gpucommons submit --workers 2 deepspeed_processes.py` does, by hand on one machine without GPUs: a free
# port, each process told who it is, both waited for. (With two GPUs: `deepspeed --num_gpus 2 …`.)
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${1:-29500}" WORLD_SIZE=2 LOCAL_SIZE=2
for rank in 0 1; do
  RANK=$rank LOCAL_RANK=$rank python deepspeed_processes.py &
  started="$started $!"
done
for process in $started; do
  wait "$process" || exit 1
done
