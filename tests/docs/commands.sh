#!/usr/bin/env bash
# Runs the commands of a page that are not shown with their output: those of ```sh blocks, and of blocks without a
# language, that begin with commlens or mpirun (tests/install builds and installs as pages say). They run one after the other in a directory that has what pages name: a
# case, a recording of it on eight ranks under several names, files of other tools. Each must end with 0, or with 1, which
# is the answer "differs". What is not run is in not_run.txt with the reason, and nothing else is there.
#   commands.sh PAGE [list]   COMMLENS_BINARY names the program; `list` prints the commands instead
set -u
page=$1
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
reasons=$root/tests/docs/not_run.txt

# Commands of the page, one a line: lines that end in \ joined, comments at their ends removed.
commands() {
  awk '
    /^ *```/ { inside = !inside; language = substr($0, index($0, "```") + 3); buffer = ""; next }
    !inside || (language != "sh" && language != "bash" && language != "") { next }
    {
      sub(/[ \t]+# .*$/, "")
      buffer = buffer $0
      if (sub(/\\$/, "", buffer)) next
      line = buffer; buffer = ""
      sub(/^ +/, "", line); gsub(/ +/, " ", line); sub(/ $/, "", line)
      if (line !~ /^([A-Z_]+=[^ ]* |for .*; do )*(commlens [a-z]+ |mpirun )/) next
      print line
    }' "$page"
}

# not_run COMMAND: the reason why not, or nothing.
not_run() {
  awk -F '\t' -v page="$page" -v command="$1" '!/^#/ && $1 == page && $2 == command { print $3; exit }' "$reasons"
}

if [ "${2:-}" = list ]; then
  commands
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$(realpath "${COMMLENS_BINARY:?names the program}")" "$work/bin/commlens"
export PATH="$work/bin:$PATH" NO_COLOR=1 OMPI_MCA_rmaps_base_oversubscribe=1
unset COLUMNS
cd "$work" || exit 2

fixtures() {
  cat >case.yaml <<'CASE'
framework: commlens
ranks: 8
precision: bf16
model: {name: small, family: gpt, layers: 2, hidden: 64, heads: 2, sequence: 32, vocab: 256}
layout: {pipeline: 1, tensor: 2}
micro_batch: 1
micro_batches: 1
CASE
  cp case.yaml job.yaml
  commlens train case.yaml --zero 1 --iterations 6 -o trace >train.log 2>&1 || { cat train.log; return 1; }
  local name
  for name in before after a b c job commlens-training; do
    ln -s trace "$name"
  done
  commlens export trace --to calls -o calls.jsonl >/dev/null 2>&1 && gzip calls.jsonl
  ln -s "$root/examples" examples
  cp "$root/examples/1.3B.yml" my-neox.yml
  cp my-neox.yml 1-3B.yml
  cp "$root/tests/fuzz/corpus/deepspeed_log/table.log" run.log
  mkdir log
  gzip -c "$root/tests/fuzz/corpus/kineto/small.json" >rank0.pt.trace.json.gz
  cp rank0.pt.trace.json.gz log/
  cp "$root/tests/fuzz/corpus/nccl_log/two_ranks.log" nccl.log
  {
    echo '# Collective test starting: all_reduce_perf'
    echo '# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824 step: 1024(factor) warmup iters: 5 iters: 20'
    for rank in 0 1 2 3 4 5 6 7; do
      echo "#  Rank  $rank Group  0 Pid  10 on n device  $rank [0000:0$rank:00] NVIDIA H100 80GB HBM3"
    done
    echo '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong'
    printf '  %s %s float sum -1 %s 0 0 0 %s 0 0 0\n' 1024 256 20.5 20.5 1048576 262144 40.25 40.25 \
      1073741824 268435456 4000 4000
  } >all_reduce_perf.log
  head -4 "$root/tests/fuzz/corpus/sweep_csv/sweep.csv" | sed 's/DGX A100/dgx_h100/' >sweep.csv
  ln -s "$root/build/release/tests/capture/heat_openmpi" heat
  ln -s heat app
  timeout -k 1 60 commlens record --call-sites -o run1 -- mpirun -n 4 ./heat >/dev/null 2>&1 || ln -s trace run1
  printf 'It was a dark and stormy night. %.0s' $(seq 400) >book.txt
  cat >config.json <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false,
 "torch_dtype": "bfloat16"}
CONFIG
  echo '{"per_device_train_batch_size": 1, "bf16": true}' >training_arguments.json
  commlens doctor --machine here.json >/dev/null 2>&1
  commlens search 175B --machine dgx_h100 --gpus 128 --global-batch 256 --format json -o found.json >/dev/null 2>&1
  commlens simulate 1.3B --ranks 8 --machine dgx_h100 --format json -o simulated.json >/dev/null 2>&1
}

status=0
fixtures || exit 1
mapfile -t all < <(cd "$root" && commands)
for command in "${all[@]}"; do
  reason=$(not_run "$command")
  if [ -n "$reason" ]; then
    continue
  fi
  timeout -k 1 240 bash -o pipefail -c "$command" >said.log 2>&1 </dev/null
  code=$?
  if [ $code -gt 1 ]; then
    printf '%s: exit code %s of\n  %s\n' "$page" $code "$command"
    tail -5 said.log
    status=1
  fi
done

# A reason without its command is one too many.
while IFS=$'\t' read -r of command reason; do
  if [ "$of" = "$page" ] && ! printf '%s\n' "${all[@]}" | grep -qxF -- "$command"; then
    printf 'not_run.txt: %s has no command %s\n' "$page" "$command"
    status=1
  fi
done <"$reasons"
exit $status
