#pragma once
#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

#include "commlens/advice/advise.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {

/// A GPT of the tests; `framework`'s defaults. Parameters of one layer of width h, weight before bias:
/// ln1 h h, qkv 3h^2 3h, proj h^2 h, ln2 h h, fc1 4h^2 4h, fc2 4h^2 h.
inline Job small_job(const char* framework, std::int64_t layers, std::int64_t hidden) {
  Job job;
  job.framework = framework;
  job.model.layers = layers;
  job.model.hidden = hidden;
  job.model.heads = 4;
  job.model.sequence = 32;
  job.model.max_positions = 32;
  job.model.vocab = 100;
  job.model.raw_vocab = 100;
  job.model.positions = Positions::learned;
  job.train.dtype = DType::fp32;
  job.train.micro_batch = 1;
  job.layout.dp = 4;
  return job;
}

/// One of the llama family, which has gated MLPs, on 4 data ranks.
inline Job llama_job(const char* framework) {
  Job job = small_job(framework, 4, 64);
  job.model.family = Family::llama;
  job.model.positions = Positions::rotary;
  job.model.gated_mlp = true;
  job.model.linear_bias = job.model.qkv_bias = job.model.norm_bias = false;
  job.model.kv_heads = 4;
  job.model.head_dim = 16;
  job.model.ffn_hidden = 128;
  return job;
}

inline Job checked(const Job& job) {
  Result<Job> valid = validated(job);
  EXPECT_TRUE(valid.has_value()) << (valid ? "" : valid.error().message);
  return valid.value_or(job);
}

inline Advice advised(const Job& job, const AdviceOptions& options = {}, const Trace* trace = nullptr) {
  Result<Advice> advice = advise(checked(job), trace, options);
  EXPECT_TRUE(advice.has_value()) << (advice ? "" : advice.error().message);
  return advice.value_or(Advice{});
}

/// The recommendation of that id, or null.
inline const Recommendation* find(const Advice& advice, std::string_view id) {
  const auto found = std::find_if(advice.recommended.begin(), advice.recommended.end(),
                                  [&](const Recommendation& made) { return made.id == id; });
  return found == advice.recommended.end() ? nullptr : &*found;
}

/// Whether a line of `lines` holds `text`.
inline bool says(const std::vector<std::string>& lines, std::string_view text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace commlens
