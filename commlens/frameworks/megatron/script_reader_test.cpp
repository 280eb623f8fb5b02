#include "commlens/frameworks/megatron/script_reader.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader.hpp"

namespace commlens::megatron {
namespace {

const std::string k_small_model =
    "MODEL_ARGS=(\n"
    "    --num-layers 8 # of them\n"
    "    --hidden-size 64 --num-attention-heads 4\n"
    "    --seq-length ${SEQ:-32} --max-position-embeddings 32\n"
    ")\n";

Result<Job> read_script(const std::string& script) {
  const Result<ConfigNode> map = parse_launch_script("run.sh", script);
  return map ? job_from_megatron(*map, 0) : tl::unexpected(map.error());
}

std::string error_of_script(const std::string& script) {
  const Result<Job> job = read_script(script);
  return job ? "no error" : job.error().message;
}

TEST(LaunchScript, ReadsArraysVariablesAndRanks) {
  const Job job = read_script(
                      "#!/bin/bash\n"
                      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                      "GPUS_PER_NODE=8\nNNODES=${SLURM_NNODES:-\"4\"}\nTP=4\n"
                      "WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))\n"
                      "DISTRIBUTED_ARGS=(\n  --nproc_per_node $GPUS_PER_NODE\n  --nnodes $NNODES\n)\n" +
                      k_small_model +
                      "PARALLEL=\"--tensor-model-parallel-size $TP \\\n  --sequence-parallel\"\n"
                      "torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\\n"
                      "    \"${MODEL_ARGS[@]}\" $PARALLEL \\\n"
                      "    --data-path $1 --save $(date +%s) 2>&1 | tee log\n")
                      .value();
  EXPECT_EQ(job.layout.ranks, 32);
  EXPECT_EQ(job.layout.tp, 4);
  EXPECT_TRUE(job.layout.sequence_parallel);
  EXPECT_EQ(job.model.layers, 8);
  EXPECT_EQ(job.model.sequence, 32);
  EXPECT_TRUE(job.unmodelled.empty());
  EXPECT_TRUE(job.warnings.empty());
}

TEST(LaunchScript, MistakesAreNamedWhereTheyStand) {
  EXPECT_EQ(error_of_script(
                "MODEL_ARGS=(\n  --num-layers 8\n  --hidden-size x\n)\n"
                "torchrun pretrain_gpt.py \"${MODEL_ARGS[@]}\" --num-attention-heads 4 --seq-length 8\n"),
            "run.sh:3: 'hidden_size' must be an integer, it is 'x'");
}

TEST(LaunchScript, WhatOnlyARunKnowsIsRefusedUnlessItChangesNoMessage) {
  const std::string launch = "torchrun pretrain_gpt.py ${MODEL_ARGS[@]} ";
  EXPECT_EQ(error_of_script(k_small_model + launch + "--tensor-model-parallel-size $TP\n"),
            "run.sh:6: 'tensor_model_parallel_size' is $TP, which nothing in the script sets; write its "
            "value, as in "
            "${TP:-4}");
  EXPECT_EQ(
      error_of_script(k_small_model + "TP=$(nvidia-smi -L | wc -l)\n" + launch +
                      "--tensor-model-parallel-size=$TP\n"),
      "run.sh:7: 'tensor_model_parallel_size' depends on '$(nvidia-smi -L | wc -l)' (line 6), which is known "
      "only when the script runs; write its value");
  EXPECT_EQ(
      error_of_script(k_small_model + "TP=$(nproc)\n" + launch + "--tensor-model-parallel-size $TP\n"),
      "run.sh:7: 'tensor_model_parallel_size' depends on '$(nproc)' (line 6), which is known only when the "
      "script runs; write its value");
  EXPECT_EQ(error_of_script(k_small_model + launch + "--bf16 $(cat more.txt)\n"),
            "run.sh:6: an argument depends on '$(cat more.txt)' (line 6), which is known only when the "
            "script runs; "
            "write its value");
  EXPECT_TRUE(read_script(k_small_model + launch + "--tensorboard-dir $LOGS/$(date) --num-workers $N\n"));
}

TEST(LaunchScript, EmptyVariablesAreNoted) {
  const Job job =
      read_script(k_small_model + "torchrun pretrain_gpt.py ${MODEL_ARGS[@]} --bf16 $EXTRA\n").value();
  EXPECT_EQ(job.warnings, std::vector<std::string>(
                              {"run.sh:6: nothing in the script sets $EXTRA; it is taken to be empty"}));
  EXPECT_EQ(job.train.dtype, DType::bf16);
}

TEST(LaunchScript, ConditionsThatAreNotKnownMayDecideWhatChangesNoMessage) {
  const std::string launch = "torchrun pretrain_gpt.py ${MODEL_ARGS[@]} $MORE\n";
  EXPECT_TRUE(read_script(k_small_model + "if [ -d ck ]; then MODEL_ARGS+=(--load ck); fi\n" + launch));
  EXPECT_TRUE(
      read_script(k_small_model + "if [ -d ck ]; then MORE=\"--load $X\"; else MORE=; fi\n" + launch));
  EXPECT_EQ(
      error_of_script(k_small_model + "if [ -d ck ]; then MODEL_ARGS+=(--bf16); fi\n" + launch),
      "run.sh:6: 'bf16' depends on '[ -d ck ]' (line 6), which is known only when the script runs; write its "
      "value");
  EXPECT_EQ(
      error_of_script(k_small_model + "if [ -d ck ]; then\n" + launch + "fi\n"),
      "run.sh:7: whether the training starts depends on '[ -d ck ]' (line 6), which is known only when the "
      "script runs; leave the condition out");
}

TEST(LaunchScript, FindsTheTraining) {
  const std::string arguments = "${MODEL_ARGS[@]} --micro-batch-size 2\n";
  EXPECT_TRUE(read_script(k_small_model + "CMD=\"python -u pretrain_gpt.py\"\necho $CMD " + arguments +
                          "$CMD " + arguments));
  EXPECT_TRUE(
      read_script(k_small_model + "ALL=\"torchrun a.py ${MODEL_ARGS[*]}\"\nsrun bash -c \"cd x; $ALL\"\n"));
  EXPECT_EQ(error_of_script("python tools/preprocess_data.py --input x\n"),
            "run.sh: no command of the script gives a Python file arguments of Megatron; line 1 starts "
            "tools/preprocess_data.py: give its configuration file, or a file with its arguments alone");
  EXPECT_EQ(error_of_script("N=8\ntorchrun --nproc_per_node=$N -m a.train --module b\n"),
            "run.sh: no command of the script gives a Python file arguments of Megatron; line 2 starts "
            "a.train: give its configuration file, or a file with its arguments alone");
  EXPECT_EQ(error_of_script("echo nothing\n"),
            "run.sh: no command of the script gives a Python file arguments of Megatron");
  EXPECT_EQ(error_of_script(k_small_model + "torchrun a.py " + arguments + "torchrun b.py " + arguments),
            "run.sh:7: a second training, beside that of line 6; keep one of them in the script");
}

TEST(LaunchScript, CountsTheRanksOfLaunchers) {
  const auto ranks_of = [](const std::string& launcher, const std::string& head = "") {
    const Result<Job> job = read_script(head + k_small_model + launcher + " a.py ${MODEL_ARGS[@]}\n");
    return job ? std::to_string(job->layout.ranks) : job.error().message;
  };
  EXPECT_EQ(ranks_of("torchrun --nproc-per-node=4"), "4");
  EXPECT_EQ(ranks_of("python3 -m torch.distributed.launch --nproc_per_node 8 --nnodes=2"), "16");
  EXPECT_EQ(ranks_of("mpirun -np 6 python"), "6");
  EXPECT_EQ(ranks_of("srun -N 2 --ntasks-per-node=8 python"), "16");
  EXPECT_EQ(ranks_of("srun python", "#SBATCH --nodes=4  # of them\n#SBATCH --ntasks-per-node=8\n"), "32");
  EXPECT_EQ(ranks_of("srun -n 8 sh -c \"ALL='${MODEL_ARGS[*]}'; python a.py \\$ALL\" #"), "8");
  EXPECT_EQ(ranks_of("python"), "0");
  EXPECT_EQ(ranks_of("torchrun --nproc_per_node gpu"),
            "run.sh:6: --nproc_per_node is 'gpu', and the number of ranks follows from it; write a number");
  EXPECT_EQ(ranks_of("torchrun --nnodes $N"),
            "run.sh:6: --nnodes is '$N', and the number of ranks follows from it; write a number");
}

}  // namespace
}  // namespace commlens::megatron
