# prepare BASE BUNDLE FOLDER KEY FILES PYTHON VERSION SETUP HOW REQUIREMENTS CONSTRAINTS SYNC…
# Makes the environment KEY with uv, once; what it prints goes to the reader as it comes.
# BUNDLE is the unpacked bundle, FOLDER that of the project in it. The last line is `ready` or
# `failed WHY`. HOW is `sync` for a project, `bare` for requirements alone (both texts of lines).
# FILES is `few` when uv needs the project's metadata alone, `whole` when it needs all of its files
# to work them out, `tied` when the environment goes on needing them.
base=$1 bundle=$2 folder=$3 key=$4 needed=$5 python=$6 version=$7 setup=$8 how=$9
shift 9
requirements=$1 constraints=$2
shift 2
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
if [ -d "$bundle/wheels" ]; then
  # A theseus that no index has, and of which the project may say where it is on the user's machine.
  UV_FIND_LINKS=${UV_FIND_LINKS:+$UV_FIND_LINKS,}$bundle/wheels
  UV_NO_SOURCES_PACKAGE=theseus-jupyter
  export UV_FIND_LINKS UV_NO_SOURCES_PACKAGE
fi
mkdir -p "$environment" || fail "$environment cannot be made"

if [ "$how" = sync ]; then
  # The project's files, in a folder of its own: the bundle never changes.
  rm -rf "$environment/tree" "$environment/project"
  if [ "$needed" != few ]; then
    cp -R "$bundle/project" "$environment/tree" || fail "the project cannot be copied to $environment"
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
  (cd "$project" && exec uv sync ${python:+--python "$python"} "$@" 2>&1) ||
    fail "uv sync failed: see the lines above"
  [ "$needed" = tied ] || rm -rf "$environment/tree"
elif [ ! -x "$environment/venv/bin/python" ]; then
  uv venv ${python:+--python "$python"} "$environment/venv" 2>&1 || fail "uv venv failed: see the lines above"
fi
printf %s "$requirements" >"$environment/requirements.txt"
printf %s "$constraints" >"$environment/constraints.txt"
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
