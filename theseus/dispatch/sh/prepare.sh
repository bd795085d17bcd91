# prepare BASE BUNDLE FOLDER KEY TIED PYTHON VERSION SETUP SYNC… -- REQUIREMENT… -- CONSTRAINT…
# Makes the environment KEY with uv, once; what it prints goes to the reader as it comes.
# FOLDER is the project's folder in the bundle. The last line is `ready` or `failed WHY`.
base=$1 bundle=$2 folder=$3 key=$4 tied=$5 python=$6 version=$7 setup=$8
shift 8
umask 077
fail() {
  printf 'failed %s\n' "$*"
  exit 0
}
give_up() { fail "$2"; }
private "$base"
private "$base/environments"
environment=$base/environments/$key-$(uname -m)
if command -v flock >/dev/null 2>&1; then
  exec 8>>"$environment.lock"
  flock -n 8 || {
    echo "another submission prepares the same environment; waiting for it"
    flock 8
  }
fi
if [ -f "$environment/ready" ]; then
  echo ready
  exit 0
fi
[ -z "$setup" ] || eval "$setup"
PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin
command -v uv >/dev/null 2>&1 || fail "uv is not installed there (looked in PATH, ~/.local/bin and ~/.cargo/bin). Install it (pip install --user uv), or name a prepared Python: 'python: /path/to/python' for this host"
[ -z "$version" ] || { SETUPTOOLS_SCM_PRETEND_VERSION=$version; export SETUPTOOLS_SCM_PRETEND_VERSION; }
unset VIRTUAL_ENV UV_PROJECT UV_WORKING_DIRECTORY
UV_PROJECT_ENVIRONMENT=$environment/venv
export UV_PROJECT_ENVIRONMENT
mkdir -p "$environment" || fail "$environment cannot be made"

sync=0
[ "$1" != -- ] && sync=1
count=0
words=$#
if [ $sync = 1 ]; then
  # The project's files, in a folder of its own: the bundle never changes.
  rm -rf "$environment/project"
  if [ "$tied" = yes ]; then
    cp -R "$bundle/project" "$environment/tree" 2>/dev/null || fail "the project cannot be copied to $environment"
    chmod -R u+w "$environment/tree"
    project=$environment/tree/$folder
  else
    project=$environment/project
    mkdir "$project"
    for file in pyproject.toml uv.lock uv.toml .python-version; do
      [ ! -f "$bundle/project/$folder/$file" ] || cp "$bundle/project/$folder/$file" "$project/"
    done
    chmod -R u+w "$project"
  fi
  set -- "$@" ++
  while [ "$1" != -- ]; do
    set -- "$@" "$1"
    shift
  done
  # Now: -- REQUIREMENT… -- CONSTRAINT… ++ SYNC…
  rest=$*
  (
    while [ "$1" != ++ ]; do shift; done
    shift
    cd "$project" && exec uv sync ${python:+--python "$python"} "$@" 2>&1
  ) || fail "uv sync failed: see the lines above"
else
  [ -x "$environment/venv/bin/python" ] || uv venv ${python:+--python "$python"} "$environment/venv" 2>&1 ||
    fail "uv venv failed: see the lines above"
fi
shift
: >"$environment/requirements.txt"
: >"$environment/constraints.txt"
list=$environment/requirements.txt
for word in "$@"; do
  case $word in
  --) list=$environment/constraints.txt ;;
  ++) break ;;
  *) printf '%s\n' "$word" >>"$list" ;;
  esac
done
if [ -s "$environment/requirements.txt" ]; then
  # What a lock has chosen stays as it is.
  [ -s "$environment/constraints.txt" ] || uv pip freeze --python "$environment/venv/bin/python" 2>/dev/null |
    grep '^[A-Za-z0-9._-]*==' >"$environment/constraints.txt"
  uv pip install --python "$environment/venv/bin/python" --requirement "$environment/requirements.txt" \
    --constraint "$environment/constraints.txt" 2>&1 || fail "uv pip install failed: see the lines above"
fi
"$environment/venv/bin/python" -c 'import sys' 2>&1 || fail "the Python of the environment does not start"
: >"$environment/ready"
echo ready
