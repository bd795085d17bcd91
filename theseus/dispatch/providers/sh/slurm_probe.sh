# slurm_probe: nodes and partitions; what both say of GPUs in use needs `-d`.
section nodes client scontrol -d -o show node
[ "$section_status" -ne 0 ] || section partitions client scontrol -o show partition
