# Options that a user has set for their own calls (formats, clusters, an allocation that we are
# called from) must not change ours. Where SLURM's configuration lies is another matter.
for _name in $(env | sed -n 's/^\([A-Z][A-Za-z0-9_]*\)=.*/\1/p'); do
  case $_name in
  SLURM_CONF) ;;
  SLURM_* | SLURMD_* | SBATCH_* | SQUEUE_* | SINFO_* | SACCT_* | SCONTROL_* | SCANCEL_* | SRUN_* | PMI* | OMPI_*)
    unset "$_name"
    ;;
  esac
done
SLURM_TIME_FORMAT=%s
export SLURM_TIME_FORMAT
separator=$(printf '\037')
find_tool sbatch || give_up failed "SLURM's sbatch is not there, nor in the PATH of a login shell"

# client COMMAND…: one question to SLURM, which answers or does not, within its time.
client() { bounded 12 "$@"; }
