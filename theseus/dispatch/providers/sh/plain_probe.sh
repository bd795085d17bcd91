# plain_probe CLAIMS SAMPLES: what this machine has, and what of that is in use.
claims=$1
samples=$2
boot=$(boot_id)

processors() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# kB of memory: all, and available.
memory() {
  if [ -r /proc/meminfo ]; then
    sed -n 's/^\(MemTotal\|MemAvailable\): *\([0-9]*\) kB/\1 \2/p' /proc/meminfo
  else
    echo "MemTotal $(($(sysctl -n hw.memsize) / 1024))"
  fi
}

# pid and user of each process that holds a GPU and is there.
owners() {
  for _pid in $(gpu_processes 2>/dev/null | awk -F, '$2 + 0 > 0 { print $2 + 0 }'); do
    [ ! -d "/proc/$_pid" ] || printf '%s %s\n' "$_pid" "$(owner_of "/proc/$_pid")"
  done
}

# Accelerators that nvidia-smi does not know.
devices() { ls -d /dev/accel[0-9]* /dev/vfio/[0-9]* 2>/dev/null; }

section processors processors
section memory memory
section load uptime
section devices devices
# Where the processes of others are hidden, one that cannot be seen is not one that has ended.
[ -d /proc/1 ] && tell visible yes
if find_tool nvidia-smi; then
  while [ "$samples" -gt 0 ]; do
    section gpus gpu_rows
    samples=$((samples - 1))
    [ "$samples" -eq 0 ] || sleep 0.3
  done
  section processes gpu_processes
  section owners owners
fi
section claims claims_held
