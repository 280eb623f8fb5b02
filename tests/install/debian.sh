#!/usr/bin/env bash
# debian.sh PACKAGES [ROOT]: installs the packages in the directory PACKAGES (made by `cpack`) on a bare Debian 12, one after
# the other, and runs each there. As root, with debootstrap and a Debian mirror; ROOT is a bare Debian that is there already.
# Not part of ./test, which asks no network.
set -euo pipefail
packages=$(realpath "$1")
work=$(mktemp -d)
root=$work/root
mounted=()
clean_up() {
  for place in "${mounted[@]}"; do umount "$place"; done
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }

# install NAME…: by apt, which brings along what they depend on and nothing more.
install() {
  local files=() name started=$SECONDS before
  for name in "$@"; do
    files+=("/packages/$(basename "$packages/$name"_*.deb)")
  done
  before=$(du -sm "$root/usr" | cut -f1)
  inside apt-get install -y --no-install-recommends "${files[@]}" >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; fail "apt install $*"; }
  printf '%-28s installed in %3d s, %4d MB with what they need\n' "$*" $((SECONDS - started)) \
    $(($(du -sm "$root/usr" | cut -f1) - before))
}

if [ -n "${2:-}" ]; then
  cp -a "$2" "$root"
else
  debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" || { cat "$work/debootstrap.log"; exit 1; }
fi
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"
mounted+=("$root/proc")
mount -t tmpfs tmpfs "$root/dev/shm" 2>/dev/null && mounted+=("$root/dev/shm")
inside apt-get update -qq
inside test ! -e /usr/bin/g++ || fail "this Debian is not bare"

install commlens
inside commlens predict 1.3B --ranks 16 --zero 3 --framework deepspeed --calls /calls.jsonl.gz | sed -n '1,3p'
inside commlens compare 1.3B 1.3B --ranks 8 --framework deepspeed >/dev/null
inside commlens import /calls.jsonl.gz -o /trace
inside commlens summary /trace >/dev/null
inside commlens report /trace -o /report.html
inside commlens export /trace --to chakra -o /chakra
inside commlens doctor --format csv | tee "$work/doctor.csv"
grep -q '^record Open MPI programs,yes,"*/usr/lib/commlens/' "$work/doctor.csv" || fail "the recorder is not found"
if inside commlens train 19M 2>"$work/train.err"; then fail "there is no trainer yet"; fi
grep -q 'the trainer is missing' "$work/train.err" || fail "train: $(cat "$work/train.err")"
inside bash -c '. /usr/share/bash-completion/completions/commlens; complete -p commlens' >/dev/null

install libcommlens0.2 libcommlens-dev
inside ldconfig -p | grep -q 'libcommlens.so.0.2' || fail "ldconfig does not know the library"
install commlens-otf2
inside commlens export /trace --to otf2 -o /archive
inside commlens summary /archive/traces.otf2 >/dev/null

install commlens-train
inside commlens train 19M --ranks 2 --layers 1 --hidden 64 --heads 2 --seq 32 --vocab 256 --micro-batch 1 --dtype fp32 \
  --iterations 2 -o /training | tail -n 1
install commlens-openmpi
inside apt-get install -y --no-install-recommends openmpi-bin openssh-client >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; fail "openmpi-bin"; }
inside env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 commlens train 19M \
  --transport mpi --layers 1 --hidden 64 --heads 2 --seq 32 --vocab 256 --micro-batch 1 --dtype fp32 --iterations 2 -o /over-mpi | tail -n 1
# Recording: the same job once more, as if it were another program's.
inside env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 commlens record --no-summary -o /recorded -- mpirun --oversubscribe \
  -n 2 commlens train 19M --transport mpi --layers 1 --hidden 64 --heads 2 --seq 32 --vocab 256 --micro-batch 1 --dtype fp32 \
  --iterations 2 -o /over-mpi-2 2>&1 | grep '^/recorded:' || fail "nothing was recorded"

inside apt-get purge -y 'commlens*' 'libcommlens*' >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; fail "purge"; }
left=$(find "$root/usr" "$root/etc" -name '*commlens*')
[ -z "$left" ] || fail "not removed: $left"
echo "all passed"
