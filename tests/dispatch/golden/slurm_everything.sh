#!/bin/sh
#SBATCH --job-name=train-gpt-3f9a2c-1
#SBATCH --comment="theseus 3f9a2c 1"
#SBATCH --output=/scratch/ada/runs/p/g/train-gpt-3f9a2c/log/slurm.log
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=65536M
#SBATCH --gres=gpu:nvidia_h100_80gb_hbm3:4
#SBATCH --partition=gpu
#SBATCH --account=lab
#SBATCH --qos=high
#SBATCH --time=2-00:00:00
#SBATCH --exclude=n[1-4],n7
#SBATCH --constraint="ib&nvme"
#SBATCH --reservation=maintenance
#SBATCH --mail-type=END

run=3f9a2c
attempt=1
folder=/scratch/ada/runs/p/g/train-gpt-3f9a2c
work=/scratch/ada/work/b1946ac9
log=/scratch/ada/runs/p/g/train-gpt-3f9a2c/log
nodes=2
cpus=16
gres=gpu:nvidia_h100_80gb_hbm3:4
set -- sh worker.sh /scratch/ada/runs/p/g/train-gpt-3f9a2c/dispatch.json

# One worker for each node. What they print goes to $log/<number>.log, what SLURM says to slurm.log.
note() { echo "theseus: $*" >&2; }

# How it ended, for everyone who asks later: the accounting may be switched off or late.
record() {
  printf '%s\n' "status=$1" "how=$2" "job=$SLURM_JOB_ID" "restarts=${SLURM_RESTART_COUNT:-0}" \
    "attempt=$attempt" "time=$(date +%s)" >"$folder/exit.$$.part" && mv -f "$folder/exit.$$.part" "$folder/exit"
}

mkdir -p "$log"
if command -v flock >/dev/null 2>&1; then
  exec 9>>"$folder/run.lock"
  flock -n -E 75 9
  if [ $? -eq 75 ]; then
    note "this run is at work in another job; job $SLURM_JOB_ID ends"
    exit 75
  fi
fi
rm -f "$folder/exit"
[ "$(cat "$folder/stop" 2>/dev/null)" = cancel ] || rm -f "$folder/stop"

THESEUS_RUN=$run THESEUS_LAUNCH=$run/$attempt/
export THESEUS_RUN THESEUS_LAUNCH
# SLURM says which GPUs are ours only when there are some.
if [ -z "$gres" ]; then
  CUDA_VISIBLE_DEVICES=
  export CUDA_VISIBLE_DEVICES
fi
if [ "$nodes" -gt 1 ]; then
  first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  # SLURM's name of a node need not be one that the network knows.
  if ! getent hosts "$first" >/dev/null 2>&1; then
    address=$(scontrol -o show node "$first" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p')
    first=${address:-$first}
  fi
  case $first in *:*) first="[$first]" ;; esac
  THESEUS_COORDINATOR=$first:$((61440 + SLURM_JOB_ID % 4096)) THESEUS_PROCESSES=$nodes
  export THESEUS_COORDINATOR THESEUS_PROCESSES
fi

# USR1 comes before the time limit: the workers save what they have, and the job queues again.
# TERM comes when it is cancelled, requeued or preempted; SLURM then tells the workers itself.
ending=
caught=
trap 'caught=1; ending=limit; printf "requeue\n" >"$folder/stop"; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
trap 'caught=1; ending=${ending:-term}' TERM

srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 ${cpus:+--cpus-per-task="$cpus"} \
  --mpi=none --export=ALL --kill-on-bad-exit=1 /bin/sh -c '
THESEUS_PROCESS=$SLURM_PROCID
export THESEUS_PROCESS
work=$1 log=$2
shift 2
if ! cd "$work"; then
  echo "theseus: node $SLURMD_NODENAME does not see $work: the work folder must be on a file system that all nodes share" >&2
  exit 72
fi
exec "$@" >>"$log/$THESEUS_PROCESS.log" 2>&1' theseus "$work" "$log" "$@" &
workers=$!
while :; do
  caught=
  wait "$workers"
  status=$?
  [ -n "$caught" ] || break
done

if [ "$ending" = limit ] && [ "$status" -ne 0 ]; then
  record "$status" requeued
  note "the time limit is near; the run queues again and goes on from its last checkpoint"
  if scontrol requeue "$SLURM_JOB_ID"; then
    # SLURM ends this script now, and its sleep first: that is no reason to say how it ended.
    trap '' TERM
    sleep 60
    exit "$status"
  fi
  note "it cannot queue again"
  record "$status" ended
elif [ "$ending" = term ]; then
  record "$status" terminated
else
  record "$status" ended
fi
exit "$status"
