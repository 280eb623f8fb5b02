#!/usr/bin/env bash
# bench_table.sh COMMLENS [TIME]: the calls of this machine as Markdown: P50 in microseconds of five collectives, 16 bytes to 16 MiB, hot and
# cold, 2 and 4 ranks, over threads, Open MPI and MPICH (those whose mpirun is there). One launch each; TIME: of a row, at most.
set -eu
commlens=$1 time=${2:-200ms}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
what=(all_reduce all_gather reduce_scatter all_to_all broadcast --sizes 16,4K,64K,1M,16M --time "$time" --format csv)
columns=()
for ranks in 2 4; do
  for transport in threads openmpi mpich; do
    launcher=mpirun.$transport
    [ "$transport" = threads ] || command -v "$launcher" >/dev/null || continue
    columns+=("$transport $ranks")
    for cache in hot cold; do
      case $transport in
        threads) "$commlens" bench "${what[@]}" --ranks "$ranks" --cache "$cache" ;;
        openmpi) "$launcher" --oversubscribe -n "$ranks" "$commlens" bench "${what[@]}" --transport mpi --cache "$cache" ;;
        mpich) "$launcher" -n "$ranks" "$commlens" bench "${what[@]}" --transport mpi --cache "$cache" ;;
      esac 2>/dev/null >"$directory/$cache.${#columns[@]}"
    done
  done
done
for cache in hot cold; do
  printf '\n%s buffers:\n\n| op | size |' "$cache"
  printf ' %s |' "${columns[@]}"
  printf '\n|---|---|'
  printf -- '---|%.0s' "${columns[@]}"
  printf '\n'
  awk -F, -v files="${#columns[@]}" '
    FNR == 1 { ++file; for (at = 1; at <= NF; ++at) place[$at] = at; next }
    { key = "| " $place["op"] " | " $place["message_bytes"] " |"; if (file == 1) order[++rows] = key
      cell[key, file] = sprintf(" %.4g%s |", $place["p50_ns"] / 1000, $place["sample_flags"] ~ /unsettled|few_samples/ ? " *" : "") }
    END { for (row = 1; row <= rows; ++row) { line = order[row]; for (at = 1; at <= files; ++at) line = line cell[order[row], at]; print line } }
  ' $(seq -f "$directory/$cache.%g" "${#columns[@]}")
done
printf '\n\\* the 95 %% interval of P50 is wider than ±5 %%.\n'
