# plain_state FOLDER PID START BOOT ATTEMPT: what became of a detached run.
folder=$1 pid=$2 start=$3 boot=$4 attempt=$5
# Before the exit file is read: a process that ends in between has written it.
if [ "$boot" != "$(boot_id)" ]; then
  life=rebooted
elif alive "$pid" "$start"; then
  life=alive
else
  life=gone
fi
tell life "$life"
if [ -f "$folder/exit" ] && [ "$(value "$folder/exit" attempt)" = "$attempt" ]; then
  section exit cat "$folder/exit"
fi
[ -f "$folder/stop" ] && section stop cat "$folder/stop"
[ -d "$folder" ] || tell missing "$folder"
