#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens::deepspeed {

/// Whether AutoTP can use a pattern of TensorSpec: a regular expression of up to 200 characters.
Result<void> check_pattern(const std::string& pattern);

/// The specs of tensor_parallel.preset_model; empty where no tree here has its linears. Source: deepspeed
/// 0.19.8 module_inject/autotp_config.py, AutoTPPresets.
std::vector<TensorSpec> preset_specs(std::string_view model);

/// How AutoTP splits the linears of a job: as the first of its specs says that matches the beginning of a
/// weight's name, not at all where none does; without specs, those of Llama's blocks. Source: deepspeed
/// 0.19.8 module_inject/autotp_config.py, find_matching_spec.
class TensorSplits {
 public:
  explicit TensorSplits(const Job& job);
  ~TensorSplits();

  /// By the name of the weight. Replicated where the job has no AutoTP.
  TensorSplit of(const std::string& name);
  /// Whether AutoTP gathers the outputs of the column linear that has this weight.
  bool gathers(const std::string& name);
  /// A pattern that took too long, after which none matches anything; empty: none did.
  const std::string& too_slow() const { return too_slow_; }

 private:
  struct Pattern;
  const TensorSpec* spec_of(const std::string& name);
  bool matches(const Pattern& pattern, const std::string& name);

  const Options& own_;
  std::vector<std::vector<Pattern>> patterns_;  // of each spec
  std::string too_slow_;
};

/// Fails where a pattern takes too long on the names of `weights`.
Result<void> check_patterns(const Job& job, const std::vector<std::string>& weights);

/// The same of the job's model, and whether the linears that are split fit together.
Result<void> check_splits(const Job& job);

}  // namespace commlens::deepspeed
