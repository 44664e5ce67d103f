"""What `gpucommons submit --workers 2 jax_processes.py` does, by hand on one machine.

python jax_by_hand.py 0 23456 &
python jax_by_hand.py 1 23456
"""

import sys

import jax
import jax_processes

rank, port = int(sys.argv[1]), sys.argv[2]
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
jax_processes.main()
