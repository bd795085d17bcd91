# What every program of a provider begins with. $1 is the mark that frames its answers.
mark=$1
shift
own_locale=${LC_ALL-}
LC_ALL=C
export LC_ALL
set -u

# restore_locale: a run has the locale that its user has, not ours.
restore_locale() {
  LC_ALL=$own_locale
  [ -n "$own_locale" ] || unset LC_ALL
}

# section NAME COMMAND…: what the command prints, and its status, between marks.
section() {
  printf '%s begin %s\n' "$mark" "$1"
  shift
  "$@" </dev/null 2>&1
  section_status=$?
  printf '\n%s end %s\n' "$mark" "$section_status"
}

# tell NAME TEXT: one short answer.
tell() { section "$1" printf '%s' "$2"; }

# give_up KIND TEXT: the last answer. The kind is a word that the caller knows.
give_up() {
  tell "$1" "$2"
  exit 0
}

have() { command -v "$1" >/dev/null 2>&1; }

# bounded SECONDS COMMAND…: no client of a busy server may keep us waiting for ever.
bounded() {
  if have timeout; then
    timeout -k 2 "$@"
  else
    shift
    "$@"
  fi
}

# find_tool NAME: shells that are not login shells often lack the folder of a site's own tools.
find_tool() {
  have "$1" && return
  PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/sbin:/opt/slurm/bin:/usr/local/slurm/bin:/usr/lib/wsl/lib
  have "$1" && return
  [ ! -r /etc/profile ] ||
    PATH=$PATH:$( (set +u; . /etc/profile >/dev/null 2>&1; printf %s "$PATH") </dev/null 2>/dev/null)
  have "$1"
}

now() { date +%s; }

boot_id() {
  if [ -r /proc/sys/kernel/random/boot_id ]; then
    cat /proc/sys/kernel/random/boot_id
  else
    sysctl -n kern.bootsessionuuid 2>/dev/null || echo unknown
  fi
}

# start_of PID: when a process began, so that a number used again is not taken for it.
start_of() {
  if [ -r "/proc/$1/stat" ]; then
    # After the last `)`: a process may call itself anything. A zombie has ended.
    sed -n 's/.*) \([^ ]*\) /\1 /p' "/proc/$1/stat" 2>/dev/null | awk 'NR == 1 && $1 != "Z" && $1 != "X" { print $20 }'
  elif [ ! -d /proc/self ]; then
    ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' '_'
  fi
}

# alive PID START: whether this very process still runs. Where others' are hidden, a signal that
# is refused says that somebody has this number: that counts.
alive() {
  [ -n "$1" ] || return 1
  _start=$(start_of "$1")
  if [ -n "$_start" ]; then
    [ "$_start" = "$2" ]
  else
    [ ! -d "/proc/$1" ] && kill -0 "$1" 2>&1 | grep -qi 'permitted'
  fi
}

# value FILE KEY: the value of a `key=value` line; nothing when there is none.
value() { [ -f "$1" ] && sed -n "s/^$2=//p" "$1" 2>/dev/null | head -n 1; }

# write FILE: standard input becomes the file, whole or not at all.
write() {
  cat >"$1.$$.part" && mv -f "$1.$$.part" "$1"
}

# lock_folder FOLDER: one launch at a time. The lock ends with this program.
lock_folder() {
  if have flock; then
    exec 8>>"$1/launch.lock"
    flock -w 60 8 || give_up locked "somebody else has been launching this run for a minute"
    return
  fi
  _tries=0
  until mkdir "$1/launch.locked" 2>/dev/null; do
    _owner=$(cat "$1/launch.locked/pid" 2>/dev/null)
    if [ -n "$_owner" ] && ! kill -0 "$_owner" 2>/dev/null; then
      rm -rf "$1/launch.locked"
    fi
    _tries=$((_tries + 1))
    [ $_tries -lt 60 ] || give_up locked "somebody else has been launching this run for a minute"
    sleep 1
  done
  echo $$ >"$1/launch.locked/pid"
  _locked=$1/launch.locked
  trap 'rm -rf "$_locked"' EXIT
}
