#include <string>

#include <gtest/gtest.h>

#include "commlens/config/toml_document.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"
#include "commlens/frameworks/torchtitan/reader.hpp"

namespace commlens::torchtitan {
namespace {

Result<Job> of_toml(const std::string& text) {
  Result<ConfigNode> document = parse_toml("train.toml", text);
  if (!document) {
    return tl::unexpected(document.error());
  }
  return toml_reader().read({*document});
}

/// torchtitan/models/llama3/train_configs/llama3_70b.toml of 0.2.2, written again.
const std::string k_70b =
    "[job]\ndump_folder = './outputs'\n[profiling]\nenable_profiling = true\n"
    "[metrics]\nlog_freq = 10\n[model]\nname = 'llama3'\nflavor = '70B'\nconverters = []\n"
    "[optimizer]\nname = 'AdamW'\nlr = 1.5e-4\n[lr_scheduler]\nwarmup_steps = 200\n"
    "[training]\nlocal_batch_size = 8\nseq_len = 8192\nmax_norm = 1.0\nsteps = 1000\ndataset = 'c4'\n"
    "[parallelism]\ndata_parallel_replicate_degree = 1\ndata_parallel_shard_degree = -1\n"
    "tensor_parallel_degree = 8\nenable_async_tensor_parallel = false\npipeline_parallel_degree = 1\n"
    "context_parallel_degree = 1\n[checkpoint]\nenable = false\nfolder = 'checkpoint'\ninterval = 500\n"
    "last_save_model_only = true\nexport_dtype = 'float32'\nasync_mode = 'disabled'\n"
    "[activation_checkpoint]\nmode = 'full'\n[compile]\nenable = false\ncomponents = ['model', 'loss']\n"
    "[quantize.linear.float8]\nenable_fsdp_float8_all_gather = false\n"
    "[validation]\nenable = false\ndataset = 'c4_validation'\nfreq = 500\nsteps = 1200\n";

TEST(TitanToml, IsAJobOf02) {
  const Result<Job> job = of_toml(k_70b);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->framework, "torchtitan");
  EXPECT_EQ(job->framework_version, "0.2.2");
  EXPECT_EQ(job->model.layers, 80);
  EXPECT_EQ(job->model.sequence, 8192);
  EXPECT_EQ(job->layout.tp, 8);
  EXPECT_EQ(job->layout.dp, 0);
  EXPECT_TRUE(job->layout.sequence_parallel);
  EXPECT_EQ(job->train.micro_batch, 8);
  EXPECT_EQ(job->train.recompute, Recompute::full);
  EXPECT_EQ(options(*job).loss_chunks, 0);
  EXPECT_FALSE(options(*job).fuses_qkv);
  EXPECT_TRUE(job->warnings.empty()) << job->warnings.front();
}

TEST(TitanToml, TakesNamesOf01AndKernelsOfAttention) {
  const Result<Job> job = of_toml(
      "[model]\nname = 'deepseek_v3'\nflavor = 'debugmodel_flex_attn'\n[training]\nbatch_size = 3\n"
      "[parallelism]\nexpert_parallel_degree = 2\n[checkpoint]\nenable_checkpoint = true\n"
      "[activation_checkpoint]\nmode = 'selective'\nselective_ac_option = 'op'\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->train.micro_batch, 3);
  EXPECT_EQ(job->layout.ep, 2);
  EXPECT_TRUE(options(*job).checkpoints.is_used);
  EXPECT_TRUE(job->warnings.empty()) << job->warnings.front();
}

TEST(TitanToml, NotesWhatHasNoRules) {
  const Result<Job> job = of_toml(
      "[model]\nflavor = '8B'\n[training]\nseq_len = 4096\nbatchsize = 1\n[parallelism]\n"
      "disable_loss_parallel = true\n");
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->unmodelled.size(), 3U);
  EXPECT_EQ(job->unmodelled[0], "'parallelism.disable_loss_parallel' (train.toml:7) has no rules");
  EXPECT_EQ(job->unmodelled[1],
            "'activation_checkpoint.selective_ac_option = 2' (train.toml:1, which leaves it to torchtitan's "
            "default) has no rules");
  EXPECT_EQ(job->unmodelled[2], "unknown key 'batchsize' (train.toml:5)");
}

TEST(TitanToml, RefusesByName) {
  const auto error_of = [](const std::string& text) {
    const Result<Job> job = of_toml("[model]\nname = 'llama3'\n" + text);
    return job ? "" : job.error().message;
  };
  EXPECT_EQ(error_of("converters = ['quantize.linear.float8']\n[training]\n"),
            "train.toml:3: 'model.converters' has no rules here; leave it out");
  EXPECT_EQ(error_of("[parallelism]\nexpert_tensor_parallel_degree = 2\n"),
            "train.toml:4: 'expert_tensor_parallel_degree' is 2; there are rules for 1 alone");
  EXPECT_EQ(
      error_of("flavor = '9B'\n"),
      "train.toml:1: the module llama3 has no flavor '9B'; did you mean 1B? choose from debugmodel, 1B, "
      "3B, 8B, 70B, 405B");
}

TEST(TitanToml, IsRecognised) {
  EXPECT_EQ(sniff_config("train.toml", k_70b), "a torchtitan TOML file");
  EXPECT_EQ(sniff_config("run.args", "--module llama3 --config llama3_8b"), "torchtitan arguments");
  EXPECT_EQ(sniff_config("run.args", "--num-layers 4 --config x"), "Megatron arguments");
  EXPECT_EQ(sniff_config("case.toml", "framework = 'paper'\n[model]\nlayers = 1\n[training]\n[job]\n"),
            "a case file");
}

}  // namespace
}  // namespace commlens::torchtitan
