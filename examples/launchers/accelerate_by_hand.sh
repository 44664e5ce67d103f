#!/bin/sh
# What `gpucommons submit --workers 2 accelerate_processes.py` does, by hand on one machine without GPUs: a free
# port, each process told who it is, both waited for. (With two GPUs: `accelerate launch --num_processes 2 …`.)
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${1:-29500}" WORLD_SIZE=2 ACCELERATE_USE_CPU=true
for rank in 0 1; do
  RANK=$rank LOCAL_RANK=$rank accelerate launch --cpu --num_machines 1 --num_processes 2 \
    --main_process_port "$MASTER_PORT" accelerate_processes.py &
  started="$started $!"
done
for process in $started; do
  wait "$process" || exit 1
done
