# introduce SCRATCH: what an entry of the inventory for this machine has to say.
scratch=$1

processors() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# KiB of main memory.
memory() {
  if [ -r /proc/meminfo ]; then
    sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo
  else
    echo $(($(sysctl -n hw.memsize) / 1024))
  fi
}

# free FOLDER: KiB. A file system's name may hold spaces, so it is the last of three numbers.
free() {
  [ -w "$1" ] || return 1
  bounded 10 df -Pk "$1" | awk 'NR > 1 {
    for (i = 2; i < NF - 1; i++)
      if ($i ~ /^[0-9]+$/ && $(i + 1) ~ /^[0-9]+$/ && $(i + 2) ~ /^-?[0-9]+$/) { print $(i + 2); exit }
  }'
}

find_uv() {
  (PATH=$PATH:$HOME/.local/bin:$HOME/.cargo/bin; command -v uv)
}

# Path, version, and whether a run could start with it at once.
pythons() {
  for _name in python3 python3.13 python3.12 python3.11; do
    command -v "$_name" >/dev/null 2>&1 || continue
    bounded 10 "$_name" -c '
import importlib.util as find, sys
ready = all(find.find_spec(name) for name in ("jax", "theseus"))
print("%d.%d" % sys.version_info[:2], "ready" if ready else "bare", sys.executable)' 2>/dev/null
  done
}

driver() { bounded 20 nvidia-smi --query-gpu=driver_version --format=csv,noheader; }

# Accelerators that nvidia-smi does not know.
devices() { ls -d /dev/accel[0-9]* /dev/vfio/[0-9]* 2>/dev/null; }

tell home "$HOME"
tell machine "$(uname -s -m 2>/dev/null)"
section processors processors
section memory memory
section free_home free "$HOME"
[ -z "$scratch" ] || section free_scratch free "$scratch"
section uv find_uv
section pythons pythons
section devices devices
if find_tool nvidia-smi; then
  section driver driver
  section gpus gpu_rows
fi
