# used BASE: what lies there, how large it is, and the notes on who needs it.
base=$1
[ -d "$base" ] || { tell nothing "$base"; exit 0; }
mine "$base" || give_up failed "$base belongs to somebody else"

# modified FILE: when, in seconds.
modified() { stat -c %Y "$1" 2>/dev/null || stat -f %m "$1"; }
for place in bundles environments incoming; do
  for item in "$base/$place"/* "$base/$place"/.new-*; do
    case $item in *.lock) continue ;; esac
    [ -e "$item" ] || continue
    tell item "$place/${item##*/} $(du -sk "$item" 2>/dev/null | cut -f 1) $(modified "$item")"
  done
done
for note in "$base/uses"/*; do
  [ -f "$note" ] || continue
  folder=$(value "$note" folder)
  section note printf '%s\n' "name=${note##*/}" "when=$(modified "$note")" "$(cat "$note")" \
    "$([ -z "$folder" ] || cat "$folder/status.json" 2>/dev/null)"
done
tell now "$(now)"
