#!/bin/sh
# Prolog of slurmd, or PrologSlurmctld: makes the directory into which a job may be recorded, the job's user's own:
#   commlens record -o /scratch/commlens/$SLURM_JOB_ID/trace -- srun ./job
# /etc/commlens/slurm.env may set COMMLENS_TRACES, a directory that all nodes see and root alone writes into. Ends with 0
# whatever happens: Slurm would drain the node.
settings=${COMMLENS_SETTINGS:-/etc/commlens/slurm.env}
# shellcheck source=/dev/null
[ ! -r "$settings" ] || . "$settings"
directory=${COMMLENS_TRACES:-/scratch/commlens}/${SLURM_JOB_ID:?is set by Slurm}
if mkdir -m 0700 "$directory" 2>/dev/null && [ "$(id -u)" -eq 0 ]; then  # other nodes of the job find it made
  chown "${SLURM_JOB_UID:?is set by Slurm}:$(id -g "$SLURM_JOB_UID")" "$directory"
fi
exit 0
