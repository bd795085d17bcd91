# GPUs of this machine, and the claims on them.

# gpu_rows: index, uuid, name, memory, used, utilization, MIG, display. Drivers before 450 know
# neither of the last two.
gpu_rows() {
  _columns=index,uuid,name,memory.total,memory.used,utilization.gpu
  _rows=$(bounded 20 nvidia-smi "--query-gpu=$_columns,mig.mode.current,display_active" --format=csv,noheader,nounits 2>&1)
  _status=$?
  case $_rows in
  *"not a valid field"*)
    _rows=$(bounded 20 nvidia-smi "--query-gpu=$_columns" --format=csv,noheader,nounits 2>&1)
    _status=$?
    printf '%s\n' "$_rows" | sed '/^[0-9][0-9]*,/s/$/, N\/A, N\/A/'
    ;;
  *) printf '%s\n' "$_rows" ;;
  esac
  return $_status
}

gpu_processes() {
  bounded 20 nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv,noheader,nounits
}

# A claim is a file UUID@UID in a folder that all users of the machine share. Only its owner can
# remove it, so one that is out of date is passed over, not removed.

# claim_live FILE: whether a claim counts. It does for as long as its process lives: the run, or
# what holds the GPU while the run is sent and prepared. One that holds may be cut off, and is
# waited for until the claim's time runs out.
claim_live() {
  [ -f "$1" ] && [ ! -L "$1" ] && [ -r "$1" ] || return 1
  [ "$(value "$1" boot)" = "$boot" ] || return 1
  _pid=$(value "$1" pid)
  [ -z "$_pid" ] || ! alive "$_pid" "$(value "$1" start)" || return 0
  _until=$(value "$1" until)
  case $_until in '' | *[!0-9]*) return 1 ;; esac
  [ "$(now)" -lt "$_until" ]
}

# claims_held: the claims that count, as `uuid user run` lines.
claims_held() {
  [ -d "$claims" ] || return 0
  for _file in "$claims"/*@*; do
    claim_live "$_file" || continue
    _uuid=${_file##*/}
    printf '%s %s %s\n' "${_uuid%@*}" "$(owner_of "$_file")" "$(value "$_file" run)"
  done
}

owner_of() { stat -c %U "$1" 2>/dev/null || stat -f %Su "$1" 2>/dev/null || echo somebody; }

# claims_lock: hold the machine's lock on file descriptor 7, until claims_unlock.
claims_lock() {
  have flock || give_up failed "'flock' (util-linux) is not installed there: GPUs cannot be claimed without it"
  [ -d "$claims" ] || mkdir -m 1777 "$claims" 2>/dev/null
  if [ -L "$claims" ] || [ ! -d "$claims" ] || [ ! -w "$claims" ] || [ ! -k "$claims" ]; then
    give_up failed "$claims must be a folder that every user may write to (mode 1777)"
  fi
  _round=0
  while :; do
    [ -e "$claims/lock" ] || (umask 022; set -C; : >"$claims/lock") 2>/dev/null
    if [ -f "$claims/lock" ] && [ ! -L "$claims/lock" ] && [ -r "$claims/lock" ]; then
      exec 7<"$claims/lock"
      flock -w 60 7 || give_up failed "the lock on GPU claims ($claims/lock) has been held for a minute"
      # The file may have been swept away while we waited: then others lock another one.
      [ ! -e /proc/self/fd/7 ] || [ "$claims/lock" -ef /proc/self/fd/7 ] && return
    fi
    _round=$((_round + 1))
    [ $_round -lt 100 ] || give_up failed "$claims/lock cannot be opened"
  done
}

claims_unlock() { exec 7<&-; }

# claim UUIDS PID START SECONDS PURPOSE: write our claims. They last as long as the process, and at
# least so many seconds. The purpose is `submit` before the run is started, then `run`.
claim() {
  for _uuid in $1; do
    _file=$claims/$_uuid@$(id -u)
    rm -f "$_file"
    (
      umask 022
      set -C
      printf '%s\n' "run=$run" "pid=$2" "start=$3" "boot=$boot" "until=$(($(now) + $4))" "for=$5" >"$_file"
    ) || return 1
  done
}

# drop_holds: let go of what is held for our run, and not used by it.
drop_holds() {
  for _file in "$claims"/*@"$(id -u)"; do
    [ -f "$_file" ] && [ "$(value "$_file" run)" = "$run" ] && [ "$(value "$_file" for)" = submit ] || continue
    rm -f "$_file"
  done
}

# choose KIND COUNT IDS: set `chosen` to what our run gets, or give up. Under the lock.
choose() {
  if [ "$1" = nvidia ]; then
    find_tool nvidia-smi || give_up failed "nvidia-smi is not there any more"
    chosen=$(choose_gpus "$2" "$3") || give_up taken "the GPUs that were free have been taken"
    return
  fi
  for _id in $3; do
    claims_held | awk -v id="$_id" -v run="$run" '$1 == id && $3 != run { found = 1 } END { exit !found }' &&
      give_up taken "$_id has been taken"
  done
  chosen=$3
}

# choose_gpus COUNT IDS: the UUIDs to use, from those preferred, then others of the same product.
# Free is what nvidia_smi.py calls free, and not claimed by another run.
choose_gpus() {
  {
    claims_held | awk -v run="$run" '$3 != run || $2 != ENVIRON["USER_NAME"] { print "claimed " $1 }'
    for _id in $2; do printf 'wanted %s\n' "$_id"; done
    gpu_processes 2>/dev/null | awk -F, '$2 + 0 > 0 { gsub(/ /, "", $1); print "claimed " $1 }'
    gpu_rows | sed 's/^/gpu /'
  } | awk -v count="$1" '
    function trimmed(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }
    $1 == "claimed" { taken[$2] = 1 }
    $1 == "wanted" { wanted[++many] = $2 }
    $1 == "gpu" {
      sub(/^gpu /, "")
      n = split($0, cell, ",")
      if (n < 8 || trimmed(cell[1]) !~ /^[0-9]+$/) next
      name = ""
      for (i = 3; i <= n - 5; i++) name = name "," trimmed(cell[i])
      uuid = trimmed(cell[2]); used = trimmed(cell[n - 3])
      known[++rows] = uuid; product[uuid] = name
      limit = trimmed(cell[n]) == "Enabled" ? 2048 : 256
      broken = tolower(cell[n - 4] cell[n - 3]) ~ /unknown error|gpu is lost|requires reset/
      held = used ~ /^[0-9]/ && used + 0 > limit
      usable[uuid] = !broken && !held && trimmed(cell[n - 1]) != "Enabled"
    }
    function take(uuid) {
      if (got < count && usable[uuid] && !(uuid in taken)) {
        taken[uuid] = 1; got++; chosen = chosen uuid "\n"
      }
    }
    END {
      for (i = 1; i <= many; i++) { take(wanted[i]); same[product[wanted[i]]] = 1 }
      for (i = 1; i <= rows; i++) if (product[known[i]] in same) take(known[i])
      if (got < count) exit 1
      printf "%s", chosen
    }'
}
