# unpack BASE BUNDLE ARCHIVE: the archive becomes a folder that never changes again.
base=$1 bundle=$2 archive=$3
umask 077
private "$base"
private "$base/bundles"
target=$base/bundles/$bundle
if [ ! -d "$target" ]; then
  new=$base/bundles/.new-$bundle-$$
  trap 'chmod -R u+w "$new" 2>/dev/null; rm -rf "$new"' EXIT
  mkdir "$new" || give_up failed "$new cannot be made"
  said=$(tar -xzf "$archive" -C "$new" 2>&1) || give_up failed "the project cannot be unpacked: $said"
  chmod -R a-w "$new" && chmod u+w "$new"
  if [ ! -d "$target" ]; then
    # Two of us at once: the second finds a folder there, and leaves it.
    mv "$new" "$target" 2>/dev/null
    [ ! -d "$target/${new##*/}" ] || { chmod -R u+w "$target/${new##*/}"; rm -rf "$target/${new##*/}"; }
  fi
  chmod u-w "$target"
fi
rm -f "$archive"
[ -d "$target" ] && tell done "$target"
