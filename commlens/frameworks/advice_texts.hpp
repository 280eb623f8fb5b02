#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// What advice changes of a job.
enum class Setting : std::uint8_t {
  zero_stage,
  sequence_parallel,
  recompute,
  whole_activations,  // not partitioned over tensor ranks
  layout,             // tp and pp
  virtual_stages,
  bucket,
  persistence_threshold
};

/// Topics of advice that depend on settings of one framework.
enum class AdviceTopic : std::uint8_t {
  overlap,             // gradients reduced while the backward pass computes
  gradient_reduction,  // gradients of ZeRO-1 and 2 reduced to their owners only
  attention_mask,      // a mask in every send between stages
  // Choices that are weighed against each other.
  sharding,        // states over all data ranks, or over some of them with replicas
  gathering,       // what stays gathered from the forward to the backward pass
  units,           // parameters that are gathered together
  loss,            // logits gathered, or a loss of the parts
  accumulation,    // which micro-batches reduce
  gradient_dtype,  // gradients reduced in a wider element type than they are computed in
  schedule,        // of pipeline stages
  loss_chunks,     // parts of the tokens whose logits exist at once
  experts          // ranks that divide the experts of a mixture
};

/// A job with one setting of its framework changed.
struct AdvisedChange {
  Job job;
  std::string title;        // "Reduce gradients by reduce_scatter"; empty where the topic has one of its own
  std::string setting;      // as the framework's users write it
  std::string reason = {};  // empty where the topic has one of its own
};

/// How a framework's users change what advice recommends.
struct AdviceTexts {
  std::string_view place;  // where the settings are: "in the DeepSpeed JSON"
  /// The setting with the value it has in `job`. Null: the flags of the command line.
  std::string (*setting)(const Job& job, Setting setting) = nullptr;
  /// The sizes of the micro-batches of `job` and how many they are. Null: in words.
  std::string (*batch)(const Job& job) = nullptr;
  /// The change a topic would make of the job; none if there is nothing to gain. Null: no topic has any.
  std::vector<AdvisedChange> (*changes)(const Job& job, AdviceTopic topic) = nullptr;
  /// Selective recomputation repeats the calls of the forward pass as full does, and saves memory whatever
  /// the attention is; else it leaves out what eager attention keeps.
  bool selective_repeats_calls = false;
};

}  // namespace commlens
