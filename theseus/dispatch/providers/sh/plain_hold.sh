# plain_hold CLAIMS RUN KIND COUNT SECONDS LIMIT ID…
# Claims GPUs for a run that is still to be sent and prepared, and renews the claims for as long as
# somebody listens, at most LIMIT seconds. Cut off, it ends, and the claims run out.
claims=$1 run=$2 kind=$3 count=$4 seconds=$5 limit=$6
shift 6
boot=$(boot_id)
USER_NAME=$(id -un)
export USER_NAME
own_start=$(start_of $$)
claims_lock
choose "$kind" "$count" "$*"
claim "$chosen" $$ "$own_start" "$seconds" submit || give_up failed "claims cannot be written to $claims"
claims_unlock
tell held "$chosen"

# renew: end when they are not ours any more: the run has started, or has been given up.
renew() {
  claims_lock
  for uuid in $chosen; do
    [ "$(value "$claims/$uuid@$(id -u)" pid)" = $$ ] || exit 0
    claim "$uuid" $$ "$own_start" "$seconds" submit || exit 0
  done
  claims_unlock
}
waited=0
while [ $waited -lt "$limit" ]; do
  sleep 2
  echo || exit 0
  waited=$((waited + 2))
  [ $((waited % 20)) -ne 0 ] || renew
done
