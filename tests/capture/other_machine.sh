#!/bin/sh
# other_machine.sh PROGRAM…: runs it; rank 1 as if on a machine of its own, which has another boot id (in the file
# other_boot here) and whose clock is 100 s ahead.
if [ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ]; then
  exec "$@"
fi
exec unshare --mount --time --monotonic 100 \
  sh -c 'mount --bind other_boot /proc/sys/kernel/random/boot_id && exec "$@"' sh "$@"
