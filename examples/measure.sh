#!/bin/bash
# Measures a cluster from the inside, as two Slurm jobs: MPI ping-pong between two nodes, and High-Performance Linpack.
set -euo pipefail
echo "Ping-pong between two nodes:"
srun --mpi=pmix -N2 -n2 mpi-pingpong
echo "High-Performance Linpack on two nodes (order 2000):"
hpl 2000 1 2 srun --mpi=pmix -N2 -n2
