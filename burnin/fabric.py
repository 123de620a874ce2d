"""Two nodes proven against each other: a NCCL all-reduce across their network, started over SSH without MPI.

The launcher. nccl-tests built without MPI cannot span nodes, so the image ships a small rendezvous launcher:

    rackmint-nccl-pair --rank 0|1 --world 2 --root HOST:PORT -- all_reduce_perf -b 1G -e 8G -f 2 -g 8 …

Rank 0 listens on HOST:PORT, hands NCCL's unique id to rank 1, and prints one nccl-tests table for both nodes; rank 1
prints only its own NCCL log. Both exit non-zero when either side fails or the partner does not come within the
launcher's own `--wait` seconds. What it does not do: more than two nodes, more than one process a node, MPI options.
What it cannot prove: which rail is slow. A pair that fails is followed by per-rail tests, which name the rails.

Two-node trees flatter the network (they may show more than the line rate), so the ring is asked for.
Source of that rule: NVIDIA's answers in nccl-tests issues 290, 309 and 319.
"""

from __future__ import annotations
