# record ROOT GROUP FOLDER NEW LOGS DATA CHECKPOINTS RESULTS BASE USE: the files on standard input, an archive,
# become the folder of a new run, or what a new attempt of an old one needs. NEW is a name that
# nobody knows. What was noted as needed under USE is noted as needed by the run.
root=$1 group=$2 folder=$3 new=$4 logs=$5 data=$6 checkpoints=$7 results=$8 base=$9
shift 9
use=$1
umask 077
existing "$root"
path=$root
rest=$group/
while [ -n "$rest" ]; do
  path=$path/${rest%%/*}
  rest=${rest#*/}
  private "$path"
done
target=$path/$folder
[ ! -e "$target" ] || mine "$target" || give_up failed "$target belongs to somebody else"
mkdir "$path/$new" || give_up failed "$path cannot be written"
trap 'rm -rf "$path/$new"' EXIT
said=$(tar -xf - -C "$path/$new" 2>&1) || give_up failed "$path cannot be written: $said"
have flock && exec 8>>"$path/.lock" && flock -w 60 8

# aside NAME PLACE: NAME in the new folder lies elsewhere.
aside() {
  if [ -z "$2" ]; then
    mkdir "$path/$new/$1"
    return
  fi
  existing "$2"
  private "$2/$folder"
  ln -s "$2/$folder" "$path/$new/$1"
}
if [ ! -d "$target" ]; then
  mkdir "$path/$new/log"
  aside checkpoints "$checkpoints"
  aside results "$results"
  mv "$path/$new" "$target" || give_up failed "$target cannot be made"
  tell made "$target"
else
  for file in status.json launch.json start.sh setup.sh dispatch.json; do
    [ ! -f "$path/$new/$file" ] || mv -f "$path/$new/$file" "$target/$file"
  done
  tell found "$target"
fi
if [ -n "$logs" ]; then
  existing "$logs"
  [ -L "$logs/$folder" ] || [ -e "$logs/$folder" ] || ln -s "$target/log" "$logs/$folder" 2>/dev/null
fi
if [ -n "$data" ] && [ ! -e "$root/data" ] && [ ! -L "$root/data" ]; then
  existing "$data"
  ln -s "$data" "$root/data" 2>/dev/null
fi
if [ -f "$base/uses/$use" ]; then
  # Another name for each attempt: who cleans up has seen that the one before has ended.
  for old in "$base/uses/$folder.submit-"*; do rm -f "$old"; done
  { echo "folder=$target"; cat "$base/uses/$use"; } | write "$base/uses/$folder.$use" && rm -f "$base/uses/$use"
fi
exit 0
