# start FOLDER PYTHON PATHS CACHE: begin the worker of a run, in its environment.
printf '[%s] theseus: begins on %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(hostname 2>/dev/null || uname -n)"
if [ -f "$1/setup.sh" ]; then
  # `module` and `conda` are functions that login shells of bash know.
  if [ -z "${THESEUS_SETUP-}" ] && command -v bash >/dev/null 2>&1; then
    THESEUS_SETUP=1
    export THESEUS_SETUP
    exec bash -l "$0" "$@"
  fi
  theseus_folder=$1 theseus_python=$2 theseus_paths=$3 theseus_cache=$4
  . "$1/setup.sh"
  set -- "$theseus_folder" "$theseus_python" "$theseus_paths" "$theseus_cache"
fi
PYTHONPATH=$3${PYTHONPATH:+:$PYTHONPATH}
PYTHONPYCACHEPREFIX=$4
PYTHONUNBUFFERED=1
export PYTHONPATH PYTHONPYCACHEPREFIX PYTHONUNBUFFERED
unset PYTHONHOME PYTHONDONTWRITEBYTECODE THESEUS_SETUP
exec "$2" -m theseus.dispatch.worker "$1"
