#!/bin/bash
# A fit on several machines: one rank per task, and as many threads per rank as the job has cores per task.
#
#   sbatch --ntasks=64 --cpus-per-task=8 examples/slurm/fit.sh 'parts/*.npz' model.hlm --heads 1000
#
# Submitted again after a kill, the job goes on from the sums that it kept.
#SBATCH --job-name=headlens-fit
set -euo pipefail
data=$1
model=$2
shift 2
mpirun ${MPIRUN_OPTIONS:-} -n "$SLURM_NTASKS" "${HEADLENS:-headlens}" fit "$data" "$@" \
  --threads "${SLURM_CPUS_PER_TASK:-1}" --checkpoint "$model.sums" -o "$model"
