# look BASE BUNDLE ENVIRONMENT PYTHON ROOT GROUP PART USE: what is there already for a run. USE is a
# name by which it is noted, from here on, that the bundle and the environment are needed.
base=$1 bundle=$2 environment=$3 python=$4 root=$5 group=$6 part=$7 use=$8
machine=$(uname -m)
umask 077
existing "${base%/*}"
private "$base"
private "$base/uses"
have flock && exec 6>>"$base/uses.lock" && flock -s -w 60 6 # while somebody cleans up
printf '%s\n' "bundle=$bundle" "environment=$environment${environment:+-$machine}" >"$base/uses/$use"
exec 6>&-
tell machine "$machine"
[ -d "$base/bundles/$bundle" ] && tell bundle "$bundle"
if [ -n "$python" ]; then
  section python "$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
elif [ -f "$base/environments/$environment-$machine/ready" ]; then
  tell environment "$environment"
fi
for folder in "$root/$group/$part"-*; do
  [ -f "$folder/run.json" ] || continue
  if ! mine "$folder"; then
    tell foreign "$folder"
    continue
  fi
  section run printf '%s\n' "${folder##*/}" "$(cat "$folder/run.json")" \
    "$(cat "$folder/status.json" 2>/dev/null)" "$(cat "$folder/launch.json" 2>/dev/null)"
done
