# slurm_launch FOLDER LOG TAG JOB_NAME ATTEMPT < SCRIPT
# Queues the script once for each attempt. Whether a submission that got no clear answer was
# taken, only the queue and the accounting can tell: they are asked before another one is made.
folder=$1 log=$2 tag=$3 name=$4 attempt=$5
[ -d "$folder" ] || give_up failed "the run's folder $folder is not there"
mkdir -p "$log" || give_up failed "$log cannot be made"
script=$folder/job-$attempt.sh
record=$folder/slurm-$attempt
doubt=$folder/slurm-$attempt.asked
lock_folder "$folder"
cat >"$script.$$.part" && mv -f "$script.$$.part" "$script" || give_up failed "$script cannot be written"
cd "$folder" || give_up failed "$folder cannot be entered"

# keep JOB: the answer, now and for whoever asks again.
keep() {
  printf '%s\n' "job=${1%%;*}" "cluster=$(printf '%s' "$1" | sed -n 's/^[^;]*;//p')" | write "$record"
  rm -f "$doubt"
  section "$2" cat "$record"
  exit 0
}

# look_up: set `found` to the job that carries our tag, if any. Fails when SLURM did not answer.
look_up() {
  found=
  rows=$(client squeue -h -a -t all -u "$(id -un)" -o "%A${separator}%j${separator}%k" 2>&1) || return 1
  case $rows in *'slurm_load_jobs error'* | *'timed out'* | *'Unable to contact'*) return 1 ;; esac
  found=$(printf '%s\n' "$rows" | awk -F "$separator" -v tag="$tag" -v name="$name" \
    'NF == 3 && ($2 == name || $3 == tag) { print $1 }' | head -n 1)
  [ -z "$found" ] || return 0
  have sacct || return 0
  # A job that was quick is in the accounting alone. No accounting is an answer too.
  rows=$(client sacct -n -X -P -S now-30days --name="$name" -o JobID,JobName 2>&1) || {
    case $rows in *disabled*) return 0 ;; *) return 1 ;; esac
  }
  found=$(printf '%s\n' "$rows" | awk -F '|' -v name="$name" 'NF == 2 && $2 == name { print $1 }' | tail -n 1)
}

[ ! -s "$record" ] || { section found cat "$record"; exit 0; }
if [ -f "$doubt" ]; then
  look_up || give_up unclear "an earlier submission got no answer, and SLURM does not say now whether the run is queued"
  [ -z "$found" ] || keep "$found" found
fi

: >"$doubt"
rm -f "$folder/exit" "$folder/stop"
complaint=$folder/slurm-$attempt.said
answer=$(restore_locale; unset SLURM_TIME_FORMAT; bounded 90 sbatch --parsable "$script" 2>"$complaint" </dev/null)
job=$(printf '%s\n' "$answer" | grep -E '^[0-9]+(;[A-Za-z0-9_.-]+)?$')
[ "$(printf '%s' "$job" | grep -c .)" -ne 1 ] || keep "$job" started

said=$(cat "$complaint" 2>/dev/null)
case $said in
*'timed out'* | *'Unable to contact'* | *'I/O error'* | *'Zero Bytes'* | *'temporarily unable'* | *'Unexpected message'* | '') ;;
*'sbatch: error:'* | *'sbatch: fatal:'* | *'allocation failure'* | *'sbatch: unrecognized'* | *'sbatch: invalid'*)
  rm -f "$doubt"
  give_up refused "$said"
  ;;
esac
tries=0
while [ $tries -lt 4 ]; do
  sleep 1
  if look_up && [ -n "$found" ]; then keep "$found" started; fi
  tries=$((tries + 1))
done
give_up unclear "sbatch gave no clear answer${said:+ ($said)}, and the run is not seen in the queue"
