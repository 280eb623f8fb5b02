#!/usr/bin/env bash
# two_hosts.sh LINK DELAY_US CLOCK_OFFSET_S MPIRUN RANKS COMMAND…: an Open MPI job over two hosts, half of the ranks on each.
# The hosts are network namespaces with names and addresses of their own, joined by LINK (delayed_link) alone; the
# clock of the second one is CLOCK_OFFSET_S ahead. Exit 77 where this machine does not allow that.
set -euo pipefail
link=$1 delay=$2 offset=$3 mpirun=$4 ranks=$5
shift 5

id=commlens-$$
work=$(mktemp -d)
first=$id-one second=$id-two
cleanup() {
  [ -z "${carrier:-}" ] || kill "$carrier" 2>/dev/null || true
  ip netns del "$first" 2>/dev/null || true
  ip netns del "$second" 2>/dev/null || true
  rm -rf "$work" "/etc/netns/$first" "/etc/netns/$second"
}
trap cleanup EXIT
trap 'exit 3' INT TERM

for host in "$first" "$second"; do
  ip netns add "$host" 2>"$work/why" || { echo "skipped: $(cat "$work/why")"; exit 77; }
  ip -n "$host" link set lo up
  mkdir -p "/etc/netns/$host"
  printf '127.0.0.1 localhost\n10.77.0.1 %s\n10.77.0.2 %s\n' "$first" "$second" >"/etc/netns/$host/hosts"
done
"$link" "$delay" "$first" 10.77.0.1/24 "$second" 10.77.0.2/24 >"$work/link" 2>"$work/why" &
carrier=$!
for _ in $(seq 100); do
  grep -q ready "$work/link" && break
  kill -0 "$carrier" 2>/dev/null || { echo "skipped: $(cat "$work/why")"; exit 77; }
  sleep 0.05
done
unshare --time --fork --monotonic "$offset" true 2>"$work/why" || { echo "skipped: $(cat "$work/why")"; exit 77; }

# In place of ssh HOST COMMAND….
cat >"$work/agent" <<AGENT
#!/usr/bin/env bash
host=\$1
shift
exec ip netns exec "\$host" unshare --uts --time --fork --kill-child --monotonic $offset bash -c "hostname \$host; \$*"
AGENT
chmod +x "$work/agent"
printf '%s slots=64\n%s slots=64\n' "$first" "$second" >"$work/hosts"
ip netns exec "$first" unshare --uts bash -c 'hostname "$0"; exec "$@"' "$first" \
  "$mpirun" --hostfile "$work/hosts" --map-by node --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 \
  --mca btl self,vader,tcp --mca btl_tcp_if_include link0 --mca oob_tcp_if_include link0 --oversubscribe -n "$ranks" "$@"
