#!/bin/bash
# Epilog of slurmd, or EpilogSlurmctld: appends one line to the job's log (SLURM_JOB_STDOUT where Slurm tells it, else
# verdict.txt beside the trace) that says whether the job had hung, and for whom it waited. Ends within 30 s, and with 0
# whatever happens: Slurm would drain the node. /etc/commlens/slurm.env may set COMMLENS_TRACES as for prolog.sh, COMMLENS
# (the program) and COMMLENS_LIMIT_S.
settings=${COMMLENS_SETTINGS:-/etc/commlens/slurm.env}
# shellcheck source=/dev/null
[ ! -r "$settings" ] || . "$settings"
directory=${COMMLENS_TRACES:-/scratch/commlens}/${SLURM_JOB_ID:-}
limit=${COMMLENS_LIMIT_S:-25}

# The first node of the job alone does it: "n[03-07,9]" begins with n03.
first=${SLURM_JOB_NODELIST%%,*}
if [[ ${SLURM_JOB_NODELIST:-} =~ ^([^,[]+)\[([0-9]+) ]]; then
  first=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
fi
if [ -z "${SLURM_JOB_ID:-}" ] || { [ -n "${SLURMD_NODENAME:-}" ] && [ -n "$first" ] && [ "$SLURMD_NODENAME" != "$first" ]; }; then
  exit 0
fi

# As the job's user: what the job wrote, its log may be a link to any file.
as_user=()
if [ "$(id -u)" -eq 0 ] && [ "${SLURM_JOB_UID:-0}" -ne 0 ]; then
  as_user=(setpriv --reuid "$SLURM_JOB_UID" --regid "$(id -g "$SLURM_JOB_UID")" --clear-groups --no-new-privs)
fi

verdict() {
  local said status
  said=$("${as_user[@]}" timeout -k 1 "$limit" "${COMMLENS:-commlens}" watch "$directory/trace" --once --json 2>&1)
  status=$?
  said=$(tr -d '\n ' <<<"$said")
  case $status in
    0) echo "well" ;;
    1)
      [[ $said =~ \"verdict\":\"([a-z_]+)\",\"culprit_ranks\":\[([0-9,]*)\],\"waiting_ranks\":([0-9]+) ]]
      echo "hung, ${BASH_REMATCH[1]:-unknown}: ${BASH_REMATCH[3]:-0} ranks waited${BASH_REMATCH[2]:+ for ${BASH_REMATCH[2]}}"
      ;;
    124 | 137) echo "not known: no answer in $limit s" ;;
    *) [ -d "$directory/trace" ] && echo "not known: commlens ended with $status" || echo "not recorded" ;;
  esac
}

line="commlens: job $SLURM_JOB_ID: $(verdict)"
# shellcheck disable=SC2016
"${as_user[@]}" timeout -k 1 2 sh -c 'for log in "$2" "$3/verdict.txt"; do
  [ -n "$log" ] && [ ! -d "$log" ] && echo "$1" 2>/dev/null >>"$log" && exit
done' - "$line" "${SLURM_JOB_STDOUT:-}" "$directory" 2>/dev/null
exit 0
