"""What runs on a host to follow log files there, and how what it sends is read here.

The program looks at all files a few times a second with two small processes, so that it costs next
to nothing while nothing is written, needs no more than a POSIX shell with `stat`, `tail` and
`head`, and sees what is written on another machine of a shared file system. (`tail -F` would do
none of that in full: it says nothing of which file a byte came from, and nothing at all while it is
silent.) Between bytes of the files it sends notes; each begins with a mark that is drawn at random.

A file is known by its inode. When another is under its name, what is left of the one before, and of
those in between, is looked for under `NAME.*` and `NAME-*`, so a rotation loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from theseus.dispatch.transport.files import SHA256

# $1 mark, $2 `once` or `follow`, $3 seconds between looks; then for each file: path, inode (`-`:
# not seen yet), offset, how many bytes before it are checked and their digest.
# Variables of a file end in its number: a shell has no better record.
PROGRAM = (
    SHA256
    + r"""
t_mark=$1 t_how=$2 t_pause=$3 t_files=0
shift 3
while [ $# -gt 0 ]; do
  t_files=$((t_files + 1))
  eval "t_path_$t_files=\$1 t_inode_$t_files=\$2 t_offset_$t_files=\$3"
  eval "t_check_$t_files=\$4 t_digest_$t_files=\$5 t_seen_$t_files=never"
  shift 5
done

# Both are only used in a substitution, where `exec` saves a process.
if stat -L -c '%i %s' / >/dev/null 2>&1; then
  look() { exec stat -L -c '%i %s %n' -- "$@"; }
  look_at_input() { exec stat -L -c '%i %s' /dev/stdin; }
else
  look() { exec stat -L -f '%i %z %N' -- "$@"; }
  look_at_input() { exec stat -f '%i %z'; }
fi
sleep 0.01 2>/dev/null || t_pause=1

say() { printf '\036%s%s\n' "$t_mark" "$*"; }

# Send what the file $1 has after $offset, if it is $inode; at most 4 MiB, then others have a turn.
send() {
  { exec 3<"$1"; } 2>/dev/null || return 0
  set -- $(look_at_input <&3)
  if [ "${1-}" = "$inode" ] && [ "${2-0}" -gt "$offset" ]; then
    want=$(($2 - offset))
    if [ "$want" -gt 4194304 ]; then want=4194304 more=yes; fi
    say data "$i" "$inode" "$offset"
    tail -c "+$((offset + 1))" <&3 | head -c "$want"
    offset=$((offset + want))
  fi
  exec 3<&-
}

send_all() {
  more=yes
  while [ "$more" ]; do
    more=
    send "$1"
  done
}

# Another file has taken the name: send the rest of the one before and all in between, oldest first.
send_rotated() {
  current=$inode inode=$known found=
  while read -r other; do
    case $other in *.gz | *.bz2 | *.xz | *.zst) continue ;; esac
    set -- $(look_at_input <"$other") || continue
    if [ "${1-}" = "$known" ]; then
      found=yes
    elif [ "$found" ] && [ "${1-}" != "$current" ]; then
      inode=$1 offset=0
      say new "$i" "$inode"
    else
      continue
    fi
    send_all "$other"
  done <<END
$(ls -1tr -- "$path"[.-]* 2>/dev/null)
END
  [ "$found" ] || say gap "$i"
  inode=$current offset=0
  say new "$i" "$inode"
}

# The first look at a file of which the reader has a part: is it still that file?
recognise() {
  [ "$known" != - ] && [ "$check" -gt 0 ] && [ "$size" -ge "$offset" ] || return 0
  got=$(tail -c "+$((offset - check + 1))" <"$path" | head -c "$check" | theseus_sha256)
  if [ "$got" = "$digest" ]; then
    if [ "$known" != "$inode" ]; then
      known=$inode
      say same "$i" "$inode"
    fi
  elif [ "$known" = "$inode" ] && [ "$got" ]; then
    offset=0
    say cut "$i" "$inode"
  fi
}

look_at_file() {
  eval "known=\$t_inode_$i offset=\$t_offset_$i seen=\$t_seen_$i"
  if [ "$seen" = never ]; then
    eval "check=\$t_check_$i digest=\$t_digest_$i"
    recognise
  fi
  if [ "$known" = - ]; then
    say new "$i" "$inode"
  elif [ "$known" != "$inode" ]; then
    send_rotated
  elif [ "$size" -lt "$offset" ]; then
    offset=0
    say cut "$i" "$inode"
  fi
  [ "$size" -le "$offset" ] || send "$path"
  eval "t_inode_$i=\$inode t_offset_$i=\$offset t_seen_$i=yes"
}

t_quiet=0
while :; do
  more= busy= i=0
  set --
  while [ "$i" -lt "$t_files" ]; do
    i=$((i + 1))
    eval "path=\$t_path_$i seen=\$t_seen_$i"
    # Opening it makes a network file system ask its server, where `stat` alone may not.
    if { :; } 2>/dev/null <"$path"; then
      set -- "$@" "$path"
    elif [ "$seen" != missing ]; then
      say none "$i"
      eval "t_seen_$i=missing"
    fi
  done
  i=0
  [ $# -eq 0 ] || while read -r inode size name; do
    while i=$((i + 1)) && [ "$i" -le "$t_files" ]; do
      eval "path=\$t_path_$i"
      [ "$path" != "$name" ] || break
    done
    [ "$i" -le "$t_files" ] || break
    look_at_file
    busy=$busy$more
    more=
  done <<END
$(look "$@" 2>/dev/null)
END
  [ -z "$busy" ] || continue
  if [ "$t_how" = once ]; then say end; exit 0; fi
  t_quiet=$((t_quiet + 1))
  if [ "$t_quiet" -ge 5 ]; then t_quiet=0; say beat; fi
  sleep "$t_pause"
done
"""
)


@dataclass(frozen=True)
class Note:
    """A note of the program, or bytes of a file (`what` is `bytes`)."""

    what: str  # new, same, cut, gap, none, data, beat, end; bytes
    file: int = 0  # from 0
    inode: int = 0
    offset: int = 0
    data: bytes = b""


class Notes:
    """What the program sends, taken apart as the bytes arrive."""

    def __init__(self, mark: str) -> None:
        self._mark = b"\036" + mark.encode()
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Note]:
        """Take in bytes; yield what is certain."""
        data = self._rest + data
        self._rest = b""
        while data:
            before, mark, after = data.partition(self._mark)
            if not mark:
                kept = self._begun(before)
                self._rest = before[len(before) - kept :]
                before = before[: len(before) - kept]
            if before:
                yield Note("bytes", data=before)
            if not mark:
                return
            line, newline, data = after.partition(b"\n")
            if not newline:
                self._rest = mark + after
                return
            yield _note(line)

    def _begun(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a mark."""
        start = data.rfind(self._mark[:1], max(0, len(data) - len(self._mark) + 1))
        return len(data) - start if start >= 0 and self._mark.startswith(data[start:]) else 0


def _note(line: bytes) -> Note:
    what, *words = line.decode("ascii", "replace").split() or ["?"]
    numbers = [int(word) if word.isdigit() else 0 for word in words] + [0, 0, 0]
    return Note(what, numbers[0] - 1, numbers[1], numbers[2])
