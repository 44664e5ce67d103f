#!/bin/sh
# What `gpucommons submit --workers 2 horovod_ranks.py` does, by hand on one machine.
exec mpirun --host localhost:2 --bind-to none -n 2 python horovod_ranks.py
