#!/bin/bash
GPUS=2
N=${NNODES:-"1"}
W=$(($GPUS*$N))
D=(--nproc_per_node $GPUS --nnodes $N)
M=(
  --num-layers 4 # layers
  --hidden-size 64 --num-attention-heads 4
  --seq-length 32 --max-position-embeddings 32
)
if [ -n "$KEY" ] || [[ $W == 2* ]]; then M+=(--bf16); else M+=(--fp16); fi
[ -d ck ] && M+=(--load ck)
torchrun "${D[@]}" pretrain_gpt.py ${M[@]} --vocab-size 1000 --save $(date) 2>&1 | tee log
