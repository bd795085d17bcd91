# slurm_state FOLDER JOB CLUSTER: our own record first; SLURM is asked only while that is silent.
folder=$1 job=$2 cluster=$3
[ -f "$folder/stop" ] && section stop cat "$folder/stop"
# ours: whether this job has written how it ended.
ours() { [ "$(value "$folder/exit" job)" = "$job" ]; }
if ours && [ "$(value "$folder/exit" how)" = ended ]; then
  section exit cat "$folder/exit"
  exit 0
fi
on=${cluster:+-M}
section queue client squeue $on $cluster -h -a -j "$job" -o "%A${separator}%T${separator}%r${separator}%S"
section accounting client sacct $on $cluster -n -X -P -D -j "$job" -o JobID,State,ExitCode
section record client scontrol $on $cluster -o show job "$job"
# A job that ended while SLURM was asked has written it by now.
ours && section exit cat "$folder/exit"
