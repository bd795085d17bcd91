# slurm_queue TEST_OPTION…: who holds what, and when a job like ours would start.
section queue client squeue -h -a -t R,CG,S,ST,CF -o "%u${separator}%D${separator}%b${separator}%N"
trial() { printf '#!/bin/sh\ntrue\n' | client sbatch --test-only "$@" 2>&1; }
[ $# -eq 0 ] || section trial trial "$@"
