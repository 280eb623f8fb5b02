#pragma once
#include <string_view>

#include "commlens/frameworks/megatron/groups.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::megatron {

/// What attention exchanges between context ranks, each of which has a part of the sequence: layers of
/// Transformer Engine alone. Read, not recorded. Source: TransformerEngine d0067d0d
/// pytorch/attention/dot_product_attention/context_parallel.py.
class ContextCalls {
 public:
  /// All outlive it.
  ContextCalls(ProgramBuilder& out, const MegatronGroups& groups, const Job& job);

  /// `layer` of the model chooses among several kinds of exchange.
  void forward(std::int64_t layer) const;
  void backward(std::int64_t layer) const;

 private:
  std::string_view kind(std::int64_t layer) const;
  void pass_on(std::int64_t count, std::string_view tag) const;
  void exchange(std::int64_t count, std::string_view tag) const;
  void gather(std::int64_t count, std::string_view tag) const;
  void scatter(std::int64_t count, std::string_view tag) const;

  ProgramBuilder& out_;
  const MegatronGroups& groups_;
  const Job& job_;
  std::int64_t queries_;  // elements of this rank's part
  std::int64_t keys_;
  std::int64_t values_;
  std::int64_t outputs_;
};

}  // namespace commlens::megatron
