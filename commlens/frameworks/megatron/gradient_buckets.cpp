#include "commlens/frameworks/megatron/gradient_buckets.hpp"

#include <numeric>
#include <utility>

#include "commlens/base/units.hpp"

namespace commlens::megatron {
namespace {

constexpr std::int64_t k_parameter_alignment = 64;
constexpr std::int64_t k_bucket_alignment = 128;
constexpr std::int64_t k_busbw_alignment = std::int64_t{1} << 16;

/// Fills the buckets of one buffer.
class BufferCut {
 public:
  BufferCut(const BucketSettings& settings, bool is_expert, std::vector<GradientBucket>& result)
      : settings_(settings), is_expert_(is_expert), result_(result) {}

  void add(const ModuleParameter& parameter) {
    if (settings_.is_sharded) {
      end_ = round_up(end_, k_parameter_alignment);
    }
    const bool stands_alone = settings_.is_sharded && parameter.has_tied_copy;
    if (stands_alone) {
      close();
    }
    end_ += parameter.count;
    open_.places.push_back(parameter.place);
    if (stands_alone || (settings_.limit > 0 && end_ - start_ >= settings_.limit)) {
      close();
    }
  }

  void close() {
    if (open_.places.empty()) {
      return;
    }
    if (settings_.is_sharded) {
      const std::int64_t ranks = is_expert_ ? settings_.expert_ranks : settings_.data_ranks;
      const std::int64_t divisor = std::lcm(ranks, k_bucket_alignment);
      end_ = round_up(end_, settings_.pads_more ? std::lcm(divisor, k_busbw_alignment) : divisor);
    }
    open_.count = end_ - start_;
    open_.is_expert = is_expert_;
    result_.push_back(std::exchange(open_, {}));
    start_ = end_;
  }

 private:
  const BucketSettings& settings_;
  bool is_expert_;
  std::vector<GradientBucket>& result_;
  std::int64_t start_ = 0;  // of the open bucket in the buffer
  std::int64_t end_ = 0;
  GradientBucket open_;
};

}  // namespace

std::vector<GradientBucket> gradient_buckets(const std::vector<ModuleParameter>& parameters,
                                             const BucketSettings& settings) {
  std::vector<GradientBucket> result;
  for (const bool is_expert : {false, true}) {
    BufferCut cut(settings, is_expert, result);
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      if (parameter->is_expert == is_expert) {
        cut.add(*parameter);
      }
    }
    cut.close();
  }
  return result;
}

}  // namespace commlens::megatron
