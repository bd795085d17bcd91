# slurm_cancel FOLDER JOB CLUSTER SECONDS RUN ATTEMPT: cancel, wait until SLURM says that it is over,
# and see on the job's nodes that it is. What SLURM cannot track (a process that has left its
# session and its parent, where no cgroups are used) would keep its GPU.
folder=$1 job=$2 cluster=$3 seconds=$4 run=$5 attempt=$6
on=${cluster:+-M}
listed() { client squeue $on $cluster -h -a -j "$job" -t PD,R,S,ST,CF,CG,RQ,RH,SE,SO,RS -o %T 2>/dev/null | grep -E '^[A-Z_]+$'; }
# of LETTER: one fact about the job, while the queue has it.
of() { client squeue $on $cluster -h -a -j "$job" -o "$1" 2>/dev/null | grep -v '^CLUSTER:' | head -n 1; }

# On a node: end what carries the run's mark in its environment, and say what is left.
sweep='
mark=THESEUS_LAUNCH=$1
marked() {
  grep -alsF "$mark" /proc/[0-9]*/environ 2>/dev/null | sed "s|^/proc/\([0-9]*\)/environ\$|\1|" | tr "\n" " "
}
for signal in TERM TERM TERM KILL KILL KILL; do
  pids=$(marked)
  [ -n "$pids" ] || break
  kill "-$signal" $pids 2>/dev/null
  sleep 1
done
pids=$(marked)
echo "node ${SLURMD_NODENAME:-$(hostname)} ${pids:-clear}"'

if [ -n "$(listed)" ]; then
  nodes=$(of %N) count=$(of %D) partition=$(of %P) account=$(of %a) qos=$(of %q)
  # The worker reads why it is ended.
  printf 'cancel\n' | write "$folder/stop" 2>/dev/null
  section scancel client scancel $on $cluster "$job"
  while [ "$seconds" -gt 0 ] && [ -n "$(listed)" ]; do
    sleep 1
    seconds=$((seconds - 1))
  done
  left=$(listed)
  if [ -n "$left" ]; then
    tell left "$left"
  elif [ -n "$nodes" ]; then
    tell nodes "$count"
    case $account in '' | '(null)') account= ;; esac
    case $qos in '' | '(null)' | N/A) qos= ;; esac
    section sweep bounded 40 srun $on $cluster --immediate=15 --time=1 --job-name=theseus-cancel --mpi=none \
      --nodelist="$nodes" --nodes="$count" --ntasks="$count" --ntasks-per-node=1 --mem=16M \
      ${partition:+--partition="$partition"} ${account:+--account="$account"} ${qos:+--qos="$qos"} \
      /bin/sh -c "$sweep" theseus "$run/$attempt/"
  fi
fi
