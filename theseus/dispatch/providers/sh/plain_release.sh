# plain_release CLAIMS RUN: let go of what was held for a run that was not started.
claims=$1 run=$2
drop_holds
tell released "$run"
