#!/bin/bash
# A study as an array of jobs: every task runs its part of the cells into a store on the disk of its machine and copies
# the store to the folder of the submission when the run has ended, also where cells failed or Slurm has asked the task to
# end. Submit again after a failure: the cells of these copies are not repeated.
#
#   sbatch --array=1-8 examples/slurm/study_array.sh STUDY.toml
#   headlens study merge part-*.db -o results.db       # when all are done
#
#SBATCH --job-name=headlens-study
#SBATCH --ntasks=1
set -euo pipefail
study=$1
task=$SLURM_ARRAY_TASK_ID
tasks=$SLURM_ARRAY_TASK_COUNT
here=$SLURM_SUBMIT_DIR
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

store=$scratch/part.db
if [ -f "$here/part-$task.db" ]; then cp "$here/part-$task.db" "$store"; fi
trap : TERM INT # headlens is told as well, and ends in order: wait for that
status=0
"${HEADLENS:-headlens}" study run "$study" -o "$store" --shard "$task/$tasks" --threads "${SLURM_CPUS_PER_TASK:-1}" || status=$?
[ -f "$store" ] || exit "$status"
# The log of SQLite is empty after the run: one file is the whole store. The new name makes the copy whole or absent.
cp "$store" "$here/part-$task.db.new"
mv "$here/part-$task.db.new" "$here/part-$task.db"
exit "$status"
