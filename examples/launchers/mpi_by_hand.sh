#!/bin/sh
# What `gpucommons submit --workers 2 mpi_ranks.py` does, by hand on one machine.
exec mpirun --host localhost:2 --bind-to none -n 2 python mpi_ranks.py
