# plain_cancel FOLDER RUN PID START BOOT ATTEMPT GRACE GPUS RELEASE: end every process of a run.
folder=$1 run=$2 pid=$3 start=$4 boot=$5 attempt=$6 grace=$7 gpus=$8 release=$9

# All processes as `pid ppid session start`.
everything() {
  if [ -d /proc/self ]; then
    cat /proc/[0-9]*/stat 2>/dev/null | awk '/\) / {
      pid = $1; sub(/.*\) /, ""); if ($1 != "Z" && $1 != "X") print pid, $2, $4, $20 }'
  else
    ps -A -o pid=,ppid=,pgid=,lstart= | awk '{ print $1, $2, $3, $4 "_" $5 "_" $6 "_" $7 "_" $8 "_" }'
  fi
}

# Those that carry the run's mark in their environment, wherever they have gone.
marked() {
  [ -d /proc/self ] || return 0
  grep -alsF "THESEUS_LAUNCH=$run/$attempt/" /proc/[0-9]*/environ 2>/dev/null |
    sed 's|^/proc/\([0-9]*\)/environ$|marked \1|'
}

# tree: `pid start` of every process of the run. A number counts only with its start time: the
# session and its descendants hang on the first process, the others on their mark.
tree() {
  {
    printf 'root %s %s\n' "$pid" "$start"
    printf '%s\n' "$known" | sed -n 's/^[0-9]/known &/p'
    marked
    everything
  } | awk -v self=$$ '
    $1 == "root" { root = $2; root_start = $3; next }
    $1 == "known" { known[$2 " " $3] = 1; next }
    $1 == "marked" { ours[$2] = 1; next }
    { parent[$1] = $2; session[$1] = $3; start[$1] = $4 }
    END {
      same = (root in start) && start[root] == root_start
      for (p in start) {
        if (same && (p == root || session[p] == root)) ours[p] = 1
        if (known[p " " start[p]]) ours[p] = 1
        # The session outlives its first process; its number is not given away meanwhile.
        if (!(root in start) && session[p] == root && start[p] >= root_start) ours[p] = 1
      }
      do {
        more = 0
        for (p in start) if (!(p in ours) && (parent[p] in ours) && parent[p] != 1) { ours[p] = 1; more = 1 }
      } while (more)
      for (p in ours) if (p in start && p != self && p != 1) print p, start[p]
    }'
}

send() { printf '%s\n' "$known" | while read -r _pid _start; do
  [ -z "$_pid" ] || [ "$(start_of "$_pid")" != "$_start" ] || kill "-$1" "$_pid" 2>/dev/null
done; }

known=
if [ "$boot" = "$(boot_id)" ]; then
  known=$(tree)
  # The worker reads why it is ended. A run that has ended is not cancelled any more.
  [ -z "$known" ] || printf 'cancel\n' | write "$folder/stop" 2>/dev/null
  send TERM
  ticks=0
  while [ -n "$known" ] && [ $ticks -lt $((grace * 5)) ]; do
    sleep 0.2
    known=$(tree)
    ticks=$((ticks + 1))
  done
  ticks=0
  while [ -n "$known" ] && [ $ticks -lt 25 ]; do
    send KILL
    sleep 0.2
    known=$(tree)
    ticks=$((ticks + 1))
  done
fi
[ -z "$known" ] || tell left "$(printf '%s\n' "$known" | cut -d ' ' -f 1 | tr '\n' ' ')"

# The driver gives memory back a moment after the process has gone.
held() {
  { gpu_rows | sed 's/^/gpu /'; } | awk -v list="$gpus" '
    BEGIN { n = split(list, id, ","); for (i = 1; i <= n; i++) ours[id[i]] = 1 }
    { sub(/^gpu /, ""); n = split($0, cell, ","); gsub(/ /, "", cell[2]); gsub(/ /, "", cell[n])
      limit = cell[n] == "Enabled" ? 2048 : 256
      if (n >= 8 && cell[2] in ours && cell[n - 3] + 0 > limit) print cell[2] }'
}
if [ -n "$gpus" ] && find_tool nvidia-smi; then
  ticks=0
  while still=$(held) && [ -n "$still" ] && [ $ticks -lt $((release * 2)) ]; do
    sleep 0.5
    ticks=$((ticks + 1))
  done
  [ -z "$still" ] || tell held "$still"
fi
