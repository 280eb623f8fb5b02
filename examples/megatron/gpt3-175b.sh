#!/bin/bash
# GPT-3 175B on 32 GPUs, as Megatron-Bridge's recipe lays it out (src/megatron/bridge/recipes/gpt/gpt3_175b.py):
# 4 tensor ranks, 8 stages of 6 chunks, sequences of 2048 tokens, gradients in bf16.
#   commlens predict examples/megatron/gpt3-175b.sh
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
NNODES=${SLURM_NNODES:-4}
TP=4
PP=8
CHECKPOINTS=$1

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_addr ${MASTER_ADDR:-localhost}
)

GPT_MODEL_ARGS=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --transformer-impl transformer_engine
)

PARALLEL_ARGS="--tensor-model-parallel-size $TP --sequence-parallel \
    --pipeline-model-parallel-size $PP --num-virtual-stages-per-pipeline-rank 6 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"

TRAINING_ARGS=(
    --micro-batch-size 2
    --global-batch-size $(( 64 * GPUS_PER_NODE * NNODES ))
    --bf16
    --grad-reduce-in-bf16
    --cross-entropy-loss-fusion
    --no-create-attention-mask-in-dataloader
    --clip-grad 1.0
    --lr 0.9e-4
    --train-iters 100
    --log-interval 10
)
if [ -d "$CHECKPOINTS" ]; then
    TRAINING_ARGS+=(--load $CHECKPOINTS)
fi

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${GPT_MODEL_ARGS[@]}" \
    $PARALLEL_ARGS \
    "${TRAINING_ARGS[@]}" \
    --tokenizer-type GPT2BPETokenizer --data-path $2 --num-workers $(nproc)
