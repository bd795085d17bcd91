# Folders that are ours alone. A name can be foreseen, and made by somebody else before us: what is
# not owned by us, or is a link, is never used.

# mine FOLDER: whether it is a folder of ours.
mine() { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; }

# private FOLDER: make it for us alone, or see that it is.
private() {
  mkdir -m 700 "$1" 2>/dev/null || mine "$1" && return
  [ -e "$1" ] || [ -L "$1" ] || give_up failed "$1 cannot be made: $(mkdir "$1" 2>&1)"
  give_up failed "$1 belongs to somebody else: name a folder of your own in the inventory"
}

# existing FOLDER: make a folder that the inventory names, with those above it.
existing() {
  [ -d "$1" ] && return
  _said=$(mkdir -p "$1" 2>&1) || give_up failed "$1 cannot be made: ${_said##*: }"
}
