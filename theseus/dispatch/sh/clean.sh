# clean BASE HOW_MANY NOTE… ITEM…: delete these items, unless something but these notes needs them.
# Each is moved out of the way under the lock that a submission takes to note what it needs, so that
# what it finds there stays there.
base=$1 many=$2
shift 2
mine "$base" || give_up failed "$base belongs to somebody else"
have flock || give_up failed "'flock' (util-linux) is not installed there: nothing can be deleted safely without it"
ended=' '
while [ "$many" -gt 0 ]; do
  ended="$ended$1 "
  shift
  many=$((many - 1))
done
exec 6>>"$base/uses.lock"
flock -w 60 6 || give_up failed "somebody has been submitting or cleaning up there for a minute"

# needed NAME: whether a note that was not given says so.
needed() {
  for note in "$base/uses"/*; do
    [ -f "$note" ] || continue
    case $ended in *" ${note##*/} "*) continue ;; esac
    [ "$(value "$note" bundle)" != "$1" ] && [ "$(value "$note" environment)" != "$1" ] || return 0
  done
  return 1
}
gone=$base/.gone-$$-$(now)
mkdir -m 700 "$gone" || give_up failed "$base cannot be written"
for item; do
  case $item in */*/* | */.. | */.) continue ;; bundles/* | environments/* | incoming/*) ;; *) continue ;; esac
  [ -e "$base/$item" ] && [ ! -L "$base/$item" ] || continue
  if needed "${item#*/}"; then
    tell kept "$item"
    continue
  fi
  if [ "${item%%/*}" = environments ] && ! (flock -n 9) 9>>"$base/$item.lock"; then
    tell kept "$item"
    continue
  fi
  chmod u+w "$base/$item" "$base/${item%%/*}" 2>/dev/null
  mv "$base/$item" "$gone/$(printf %s "$item" | tr / _)" 2>/dev/null || { tell kept "$item"; continue; }
  # Bytecode of its modules lies at the same path below ours.
  [ ! -d "$base/pycache$base/$item" ] || mv "$base/pycache$base/$item" "$gone/$(printf %s "$item" | tr / _).pycache"
  rm -f "$base/$item.lock"
  tell deleted "$item"
done
for note in $ended; do rm -f "$base/uses/$note"; done
flock -u 6
chmod -R u+w "$gone" 2>/dev/null
rm -rf "$gone"
tell done yes
