#!/bin/bash
# Mixtral 8x7B on 32 GPUs: 8 expert ranks and 4 stages, the layout that Megatron-LM recommends for training
# (examples/mixtral/README.md), with the 8 chunks a stage of NeMo's recipe.
#   commlens predict examples/megatron/mixtral-8x7b.sh
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8

MODEL_SIZE=${MODEL_SIZE:-8x7B}
case $MODEL_SIZE in
    8x7B)
        LAYERS=32
        HIDDEN=4096
        HEADS=32
        FFN=14336
        VPP=8
        ;;
    8x22B)
        LAYERS=56
        HIDDEN=6144
        HEADS=48
        FFN=16384
        VPP=14
        ;;
esac

options=" \
    --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS --ffn-hidden-size $FFN \
    --seq-length 4096 --max-position-embeddings 32768 \
    --group-query-attention --num-query-groups 8 \
    --position-embedding-type rope --rotary-base 1000000 \
    --normalization RMSNorm --swiglu --disable-bias-linear \
    --untie-embeddings-and-output-weights \
    --attention-dropout 0.0 --hidden-dropout 0.0"

moe_options=" \
    --num-experts 8 --moe-router-topk 2 \
    --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 \
    --moe-token-dispatcher-type alltoall"

run_cmd="python -u pretrain_gpt.py $options $moe_options \
    --micro-batch-size 1 --global-batch-size 256 \
    --tensor-model-parallel-size 1 \
    --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank $VPP \
    --expert-model-parallel-size 8 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --bf16 --no-create-attention-mask-in-dataloader \
    --tokenizer-type Llama2Tokenizer --tokenizer-model ${TOKENIZER} --vocab-size 32000 \
    --lr 1e-4 --train-iters 100 --eval-iters 0 --log-interval 1"

srun -l --output=logs/%x_%j.log sh -c "${run_cmd}"
