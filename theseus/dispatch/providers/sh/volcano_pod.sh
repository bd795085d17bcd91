# volcano_pod FOLDER WORK LOG ATTEMPT COMMAND…: one worker, as the first process of its pod.
folder=$1 work=$2 log=$3 attempt=$4
shift 4
THESEUS_PROCESS=${VC_TASK_INDEX:-${VK_TASK_INDEX:-0}}
export THESEUS_PROCESS

# How it ended: what the first process says counts, unless another one has failed before.
record() {
  if [ "$1" -eq 0 ] && [ "$THESEUS_PROCESS" -ne 0 ]; then return; fi
  if [ "$1" -ne 0 ] && [ "$(sed -n 's/^attempt=//p' "$folder/exit" 2>/dev/null)" = "$attempt" ]; then return; fi
  printf '%s\n' "status=$1" "how=$2" "attempt=$attempt" "process=$THESEUS_PROCESS" "time=$(date +%s)" \
    >"$folder/exit.$THESEUS_PROCESS.part" && mv -f "$folder/exit.$THESEUS_PROCESS.part" "$folder/exit"
}

mkdir -p "$log"
[ "$THESEUS_PROCESS" -ne 0 ] || rm -f "$folder/exit"
# The first process of a pod gets the signals; the worker must hear of them.
ending='' caught='' worker=''
trap 'caught=1; ending=terminated; [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null' TERM
if cd "$work"; then
  "$@" >>"$log/$THESEUS_PROCESS.log" 2>&1 &
  worker=$!
  while :; do
    caught=
    wait "$worker"
    status=$?
    [ -n "$caught" ] || break
  done
else
  echo "theseus: the volume has no $work" >&2
  status=72
fi
record "$status" "${ending:-ended}"
exit "$status"
