#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/advice_texts.hpp"
#include "commlens/frameworks/config_reader.hpp"
#include "commlens/frameworks/memory_rules.hpp"
#include "commlens/frameworks/variations.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/version.hpp"
#include "commlens/plan/local_parameters.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/trace/rule_book.hpp"

namespace commlens {

/// The steps of one pipeline stage (all its data and tensor ranks take the same): initialisation, then
/// iterations until they repeat.
struct StagePrograms {
  Program init;
  std::vector<Program> iterations;
  /// What all but the first rank of each tensor group do at initialisation, where that is something else.
  std::optional<Program> init_of_other_tensor_ranks = {};
  /// The same of all but the first rank of each row of `data_row` data ranks; not beside the other.
  std::optional<Program> init_of_other_data_ranks = {};
  std::int64_t data_row = 0;
  /// What some iterations do instead.
  std::vector<OtherProgram> others = {};
};

/// How a framework's settings are read and changed.
struct SettingRules {
  /// Makes a job that another framework's configuration described this one's: settings that both have are
  /// carried over, the others get their defaults. Null: nothing to change.
  void (*adopt)(Job& job) = nullptr;
  /// Removes what came from another framework's configuration and does not apply. Null: nothing.
  void (*skip_converted)(Job& job) = nullptr;
  /// The width of the model changed: settings of a configuration that follow from it. Called for jobs of all
  /// frameworks, since a job may carry the settings of another one. Null: none.
  void (*follow_width)(Job& job) = nullptr;
  /// Called before the layout of a job is resolved: degrees that its own settings decide. Null: none.
  void (*prepare)(Job& job) = nullptr;
  /// Called when a job is validated, its layout known: settings that follow from others. Null: none.
  void (*settle)(Job& job) = nullptr;
  /// Whether the framework, at the job's version, splits activations along the sequence over tensor ranks.
  bool (*has_sequence_parallelism)(const Job& job) = nullptr;  // null: it does not
  /// Sequence parallelism was asked for on the command line. Null: nothing follows from it.
  void (*ask_for_sequence_parallelism)(Job& job) = nullptr;
  /// It was switched on or off on the command line. Null: nothing follows from it.
  void (*set_sequence_parallelism)(Job& job, bool is_on) = nullptr;
  /// Bytes of a gradient bucket at the job's ZeRO stage, 0 for none. Null: the framework has no bucket size.
  Bytes (*bucket)(const Job& job) = nullptr;
  /// Sets it, in bytes; fails for sizes that its setting cannot express.
  Result<void> (*set_bucket)(Job& job, Bytes bucket) = nullptr;
  /// ZeRO-3's persistence threshold, ZeRO++ and partitioned activations.
  bool has_sharding_details = false;
  /// What data ranks do with the model's states, as heads have it: "FSDP2 over 64 ranks". Null: "ZeRO-N".
  std::string (*sharding_text)(const Job& job) = nullptr;
  /// What is computed in, where that is not the dtype of the parameters. Null: it is.
  DType (*compute_dtype)(const Job& job) = nullptr;
  /// Makes stages 1 and 2 reduce gradients by all_reduce. Null: the framework has no such choice.
  void (*reduce_by_all_reduce)(Job& job) = nullptr;
  /// Whether gradients, not sharded parameters, are reduced in every micro-batch. Null: in the last one.
  bool (*reduces_every_micro_batch)(const Job& job) = nullptr;
  bool takes_uneven_stages = false;     // virtual stages may have different numbers of layers
  bool pads_to_tensor_ranks = false;    // rounds the vocabulary up to a multiple of the tensor ranks itself
  bool splits_heads_of_groups = false;  // tensor ranks may share a key/value head
};

/// How data ranks share the parameters of a job.
struct SharedParameters {
  std::int64_t ranks = 1;       // that share one copy
  std::int64_t copies = 1;      // dp is ranks x copies
  bool keeps_gathered = false;  // from a unit's forward pass to its backward pass
};

/// One framework: everything that the rest of the program uses of it.
struct FrameworkRules {
  std::string_view name;            // as the command line and files have it
  std::string_view engine;          // the framework whose engine trains the job: its own name, or a library's
  std::string_view family = "";     // of rule sets that are one under several names: what they have in common
  bool is_first_of_family = false;  // the one that the family's name stands for, where nothing else says it
  /// Versions whose behaviour is known, releases in ascending order (`choose_version`). Empty for equations,
  /// which have no versions.
  std::vector<KnownVersion> versions;
  std::size_t default_version = 0;  // the one of a job that names none, or a commit that is not listed
  std::string_view base;            // what the framework ran on: " on LIBRARY VERSION"
  /// Refuses, by name, what the rules do not cover.
  Result<void> (*check)(const Job& job);
  /// Why the prediction rests on rules that were never measured; empty when all were.
  std::vector<std::string> (*unverified)(const Job& job);
  /// The steps of `stages` (ascending pipeline stages); descriptions go to the tables of `plan`, whose job is
  /// `job`.
  Result<std::vector<StagePrograms>> (*write)(const Job& job, std::span<const std::int64_t> stages,
                                              Plan& plan);
  /// Which part of the model each pipeline stage holds; null for rule sets without stages of their own.
  Result<std::vector<StagePart>> (*parts)(const Job& job) = nullptr;
  std::vector<Axis> more_axes;        // axes that the rules have calls along, beside those of every layout
  bool takes_partial_models = false;  // ModelConfig::is_whole()
  bool takes_newer_models = false;    // ModelConfig::newer_part()
  /// Whether the paper's equations of volumes describe the job. Null: they do.
  bool (*fits_equations)(const Job& job) = nullptr;
  bool takes_any_order = false;  // of ranks, as ParallelLayout::order; else the default order alone
  bool has_context_parallelism = false;
  bool has_expert_parallelism = false;
  SettingRules settings = {};
  MemoryRules memory = {};
  AdviceTexts advice = {};
  /// Adds the changes of its own settings that are worth trying. Null: none, nothing of a job is varied.
  void (*variations)(Variations& variations) = nullptr;
  CaseRules case_file = {};
  /// Has the job hide messages of data parallelism behind computing: reductions of gradients, gathers of
  /// parameters. Null: nothing to switch.
  void (*overlap)(Job& job, bool gradients, bool parameters) = nullptr;
  /// Has data ranks share parameters. Null: the framework does not, or not by a choice of its own.
  void (*shard)(Job& job, const SharedParameters& shards) = nullptr;
  std::span<const RuleRow> causes;  // what each of its rules means
};

/// The one list.
std::span<const FrameworkRules> frameworks();
/// Kinds of configuration files, in the order in which a file is tried on them.
std::span<const ConfigReader> config_readers();
/// The rules of a job's framework, which is in the list.
const FrameworkRules& rules_of(const Job& job);
/// Those of the framework with this name; the error lists the names.
Result<const FrameworkRules*> framework_named(std::string_view name);
/// "paper, deepspeed, … torch-ddp, commlens": the names in the list, `last` between the last two.
std::string framework_names(std::string_view last = ", ");

/// What the rules of all frameworks mean.
const RuleBook& rule_book();

/// The job as the framework of that name, which is in the list, would run it. The same framework leaves the
/// job as it is.
Job with_framework(Job job, std::string_view framework);

/// A framework as --framework has it: "megatron", with its version "deepspeed@0.14.0", or the name of a
/// family, "torch@2.9.1", which is the job's own framework where it belongs to the family.
struct VersionedFramework {
  std::string_view name;    // empty: the job's own or the first one of `family`
  std::string_view family;  // empty if `name` is given
  std::string version;      // empty: that of the job, or the default one
};
/// Fails, with the choices, for another name, an empty version, and a version of what has none.
Result<VersionedFramework> versioned_framework(std::string_view text);
Job with_framework(Job job, const VersionedFramework& choice);

/// Pads the vocabulary as Megatron and what comes from it do, to a multiple of 128 for each tensor rank,
/// unless the model has another multiple.
void pad_vocab_for_training(ModelConfig& model);

/// The job with its degrees resolved and its vocabulary padded (what that switches on or off is noted in
/// `warnings`), or why no framework could run it (`checked`). What a single rule set does not support is
/// refused by that rule set.
Result<Job> validated(Job job);

}  // namespace commlens
