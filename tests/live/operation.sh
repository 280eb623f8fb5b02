#!/usr/bin/env bash
# operation.sh FAULTS: what contrib/ has for those who run clusters: the scripts of Slurm with jobs that are well, hung,
# not recorded, and the unit of systemd. FAULTS: tests/capture/faults_openmpi. COMMLENS_BINARY names the program.
set -uo pipefail
faults=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
chmod 755 "$work"
export COMMLENS=$COMMLENS_BINARY COMMLENS_SETTINGS=/dev/null COMMLENS_TRACES=$work
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SLURM_JOB_UID=$UID
unset SLURM_JOB_STDOUT SLURM_JOB_NODELIST SLURMD_NODENAME
job=
end() {
  [ -z "$job" ] || kill -- -"$job" 2>/dev/null
  rm -rf "$work"
}
trap end EXIT
failed=0

# says JOB PATTERN [WHAT]: prolog.sh has run; epilog.sh must end in 30 s, well, with such a line in the job's log.
says() {
  local log=$work/$1.log
  [ ! -d "$work/$1" ] || log=$work/$1/verdict.txt
  SLURM_JOB_ID=$1 timeout -k 1 30 "$root/contrib/slurm/epilog.sh" >"$work/printed" 2>&1
  local status=$?
  if [ $status -ne 0 ] || [ -s "$work/printed" ] || ! grep -qxE "commlens: job $1: $2" "$log"; then
    echo "epilog.sh, $1: exit $status, '$(cat "$log" "$work/printed")', not '$2'"
    failed=1
  fi
}

record() {
  SLURM_JOB_ID=$1 "$root/contrib/slurm/prolog.sh" || failed=1
  (cd "$work" && exec timeout -k 1 60 "$COMMLENS" record --no-summary -o "$work/$1/trace" -- \
    mpirun.openmpi --oversubscribe -n 4 "$faults" "$2") >"$work/job.log" 2>&1
}

if command -v mpirun.openmpi >/dev/null && [ -x "$faults" ]; then
  record well well || { cat "$work/job.log"; failed=1; }
  says well "well"
  set -m
  record hung pause &
  job=$!
  set +m
  for _ in $(seq 600); do [ -e "$work/faulty" ] && break; sleep 0.1; done
  says hung "hung, missing: 3 ranks waited for 2"
  kill -- -"$job" 2>/dev/null
  wait "$job" 2>/dev/null
  job=
  says hung "hung, missing: 3 ranks waited for 2"
  [ "$(wc -l <"$work/hung/verdict.txt")" -eq 2 ] || { echo "one line each time"; failed=1; }
else
  echo "no Open MPI: no job that is well, and none that hangs"
fi

SLURM_JOB_ID=empty "$root/contrib/slurm/prolog.sh" || failed=1
says empty "not recorded"
SLURM_JOB_STDOUT=$work/absent.log says absent "not recorded"

# A program that does not end, on a node that is the first of its job, and on one that is not.
printf '#!/bin/sh\nexec sleep 60\n' >"$work/sleeps"
chmod 755 "$work/sleeps"
SLURM_JOB_ID=slow "$root/contrib/slurm/prolog.sh"
export SLURM_JOB_NODELIST='n[03-05,9],x1'
for node in n04 x1 n3; do
  SLURM_JOB_ID=slow SLURMD_NODENAME=$node "$root/contrib/slurm/epilog.sh"
done
[ ! -e "$work/slow/verdict.txt" ] || { echo "a node that is not the first wrote"; failed=1; }
COMMLENS=$work/sleeps COMMLENS_LIMIT_S=1 SLURMD_NODENAME=n03 says slow "not known: no answer in 1 s"
unset SLURM_JOB_NODELIST

# As root for a user: the directory is the user's, and a log that is a link to another's file stays as it is.
if [ "$UID" -eq 0 ] && id nobody >/dev/null 2>&1; then
  export SLURM_JOB_UID
  SLURM_JOB_UID=$(id -u nobody)
  SLURM_JOB_ID=foreign "$root/contrib/slurm/prolog.sh"
  [ "$(stat -c %U:%a "$work/foreign")" = nobody:700 ] || { echo "the directory is not the user's"; failed=1; }
  echo precious >"$work/precious"
  ln -s "$work/precious" "$work/link"
  printf '#!/bin/sh\n[ "$(id -un)" = nobody ] || exit 1\n' >"$work/who"
  chmod 755 "$work/who"
  COMMLENS=$work/who SLURM_JOB_STDOUT=$work/link says foreign "well"
  [ "$(cat "$work/precious")" = precious ] || { echo "epilog.sh wrote through the user's link"; failed=1; }
fi

if command -v systemd-analyze >/dev/null; then
  mkdir "$work/etc"
  touch "$work/etc/serve.env"
  sed "s|/usr/bin/commlens|$COMMLENS|; s|/etc/commlens|$work/etc|" "$root/contrib/commlens-serve.service" >"$work/commlens-serve.service"
  said=$(systemd-analyze verify --man=no "$work/commlens-serve.service" 2>&1 | grep commlens-serve)
  [ -z "$said" ] || { echo "systemd-analyze verify: $said"; failed=1; }
  # Exposure, in tenths, by systemd's count: 96 without any of it.
  systemd-analyze security --offline=true --threshold=20 --no-pager "$work/commlens-serve.service" >"$work/security" 2>&1 ||
    { tail -3 "$work/security"; failed=1; }
  tail -1 "$work/security"
fi
exit $failed
