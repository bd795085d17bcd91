# slurm_cancel FOLDER JOB CLUSTER SECONDS: cancel, and wait until SLURM says that it is over.
folder=$1 job=$2 cluster=$3 seconds=$4
on=${cluster:+-M}
listed() { client squeue $on $cluster -h -a -j "$job" -t PD,R,S,ST,CF,CG,RQ,RH,SE,SO,RS -o %T 2>/dev/null | grep -E '^[A-Z_]+$'; }
if [ -n "$(listed)" ]; then
  # The worker reads why it is ended.
  printf 'cancel\n' | write "$folder/stop" 2>/dev/null
  section scancel client scancel $on $cluster "$job"
  while [ "$seconds" -gt 0 ] && [ -n "$(listed)" ]; do
    sleep 1
    seconds=$((seconds - 1))
  done
  left=$(listed)
  [ -z "$left" ] || tell left "$left"
fi
