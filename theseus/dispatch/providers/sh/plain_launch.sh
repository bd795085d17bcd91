# plain_launch CLAIMS FOLDER WORK LOG RUN ATTEMPT KIND COUNT HOW_MANY_IDS ID… COMMAND…
# Starts the command detached, on GPUs that are claimed for it; once for each attempt.
claims=$1 folder=$2 work=$3 log=$4 run=$5 attempt=$6 kind=$7 count=$8 many=$9
shift 9
ids=
while [ "$many" -gt 0 ]; do
  ids="$ids $1"
  shift
  many=$((many - 1))
done
boot=$(boot_id)
USER_NAME=$(id -un)
export USER_NAME
record=$folder/process

[ -d "$folder" ] || give_up failed "the run's folder $folder is not there"
[ -d "$work" ] || give_up failed "the code's folder $work is not there"
mkdir -p "$log" || give_up failed "$log cannot be made"
lock_folder "$folder"

if [ -f "$record" ]; then
  if [ "$(value "$record" attempt)" = "$attempt" ] || {
    [ "$(value "$record" boot)" = "$boot" ] &&
      alive "$(value "$record" pid)" "$(value "$record" start)"
  }; then
    drop_holds
    section found cat "$record"
    exit 0
  fi
fi

# A machine may end all processes of a user who logs out. A scope of the user's own service
# manager outlives that, when the user lingers.
scope=
if have loginctl && [ "$(bounded 5 loginctl show-session --property=KillUserProcesses 2>/dev/null)" = KillUserProcesses=yes ]; then
  if [ "$(bounded 5 loginctl show-user "$USER_NAME" --property=Linger 2>/dev/null)" = Linger=yes ] &&
    have systemd-run && bounded 10 systemd-run --user --scope --quiet true >/dev/null 2>&1; then
    scope='systemd-run --user --scope --quiet --'
  else
    give_up failed "this machine ends the processes of a user who logs out (KillUserProcesses=yes); allow yours to stay: loginctl enable-linger $USER_NAME"
  fi
fi

chosen=
if [ "$count" -gt 0 ]; then
  claims_lock
  choose "$kind" "$count" "$ids"
  claim "$chosen" '' '' 120 run || give_up failed "claims cannot be written to $claims"
  drop_holds
fi

visible=$(printf '%s' "$chosen" | tr -s ' \n' ',,' | sed 's/^,//; s/,$//')
rm -f "$folder/exit" "$folder/stop"

# The first process of the run: waits for the worker and writes down how it ended.
# It passes no signal on: `cancel` reaches every process by itself.
first='
trap "" HUP
trap : INT TERM
folder=$1 work=$2 attempt=$3
shift 3
if cd "$work"; then "$@"; else (exit 72); fi
status=$?
printf "%s\n" "status=$status" "how=ended" "attempt=$attempt" "time=$(date +%s)" >"$folder/exit.$$.part" &&
  mv -f "$folder/exit.$$.part" "$folder/exit"
exit "$status"'

THESEUS_RUN=$run THESEUS_LAUNCH=$run/$attempt/ THESEUS_PROCESS=0
export THESEUS_RUN THESEUS_LAUNCH THESEUS_PROCESS
if [ "$kind" = nvidia ] || [ "$count" -eq 0 ]; then
  CUDA_VISIBLE_DEVICES=$visible
  export CUDA_VISIBLE_DEVICES
fi
unset USER_NAME
restore_locale
session=setsid
have setsid || { session=; set -m; }
$scope $session /bin/sh -c "$first" theseus "$folder" "$work" "$attempt" "$@" \
  </dev/null >>"$log/0.log" 2>&1 7<&- 8<&- &
pid=$!
start=$(start_of "$pid")
[ -z "$chosen" ] || claim "$chosen" "$pid" "$start" 0 run
printf '%s\n' "pid=$pid" "start=$start" "boot=$boot" "attempt=$attempt" "gpus=$visible" | write "$record"
section started cat "$record"
