#include "commlens/frameworks/frameworks.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"
#include "commlens/frameworks/commlens/framework.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/huggingface/accelerate.hpp"
#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/huggingface/training_arguments.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/neox/framework.hpp"
#include "commlens/frameworks/neox/reader.hpp"
#include "commlens/frameworks/paper/framework.hpp"
#include "commlens/frameworks/torch/framework.hpp"
#include "commlens/frameworks/torchtitan/framework.hpp"
#include "commlens/frameworks/torchtitan/reader.hpp"

namespace commlens {
namespace {

const FrameworkRules* found(std::string_view name) {
  const auto all = frameworks();
  const auto rules =
      std::find_if(all.begin(), all.end(), [&](const FrameworkRules& one) { return one.name == name; });
  return rules == all.end() ? nullptr : &*rules;
}

const FrameworkRules* first_of_family(std::string_view family) {
  const auto all = frameworks();
  const auto rules = std::find_if(all.begin(), all.end(), [&](const FrameworkRules& one) {
    return one.is_first_of_family && one.family == family;
  });
  return rules == all.end() ? nullptr : &*rules;
}

}  // namespace

std::span<const FrameworkRules> frameworks() {
  static const std::vector<FrameworkRules> all = [] {
    std::vector<FrameworkRules> rules = {paper::rules(), deepspeed::rules(), neox::rules(),
                                         megatron::rules()};
    for (FrameworkRules& one : pytorch::rules()) {
      rules.push_back(std::move(one));
    }
    rules.push_back(torchtitan::rules());
    rules.push_back(huggingface::rules());
    rules.push_back(trainer::rules());
    return rules;
  }();
  return all;
}

std::span<const ConfigReader> config_readers() {
  static const std::array all = {huggingface::reader(),
                                 huggingface::accelerate_reader(),
                                 torchtitan::argument_reader(),
                                 torchtitan::toml_reader(),
                                 megatron::reader(),
                                 neox::reader(),
                                 huggingface::training_arguments_reader(),
                                 deepspeed::reader()};
  return all;
}

const FrameworkRules& rules_of(const Job& job) {
  const FrameworkRules* const rules = found(job.framework);
  COMMLENS_CHECK(rules != nullptr, "a job names a framework of the list");
  return *rules;
}

Result<const FrameworkRules*> framework_named(std::string_view name) {
  if (const FrameworkRules* const rules = found(name)) {
    return rules;
  }
  std::vector<std::string_view> names;
  for (const FrameworkRules& one : frameworks()) {
    names.push_back(one.name);
  }
  const std::string meant = nearest(name, names);
  return failure(fmt::format("there is no framework '{}'; {}choose from {}", name.substr(0, 40),
                             meant.empty() ? "" : fmt::format("did you mean '{}'? ", meant),
                             framework_names()));
}

std::string framework_names(std::string_view last) {
  std::string names;
  for (const FrameworkRules& one : frameworks()) {
    const bool is_last = &one == &frameworks().back();
    names += fmt::format("{}{}", names.empty() ? "" : is_last ? last : ", ", one.name);
  }
  return names;
}

const RuleBook& rule_book() {
  static const RuleBook all = [] {
    RuleBook book;
    for (const FrameworkRules& one : frameworks()) {
      book.add(one.causes);
    }
    return book;
  }();
  return all;
}

Job with_framework(Job job, std::string_view framework) {
  if (job.framework == framework) {
    return job;
  }
  const std::string_view family = found(job.framework) == nullptr ? "" : rules_of(job).family;
  job.framework = framework;
  const FrameworkRules& rules = rules_of(job);
  if (family.empty() || family != rules.family) {
    job.framework_version.clear();
  }
  if (rules.settings.adopt != nullptr) {
    rules.settings.adopt(job);
  }
  return job;
}

Result<VersionedFramework> versioned_framework(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  VersionedFramework choice;
  bool has_versions = true;
  if (first_of_family(name) != nullptr) {
    choice.family = first_of_family(name)->family;
  } else {
    const Result<const FrameworkRules*> rules = framework_named(name);
    if (!rules) {
      return tl::unexpected(rules.error());
    }
    choice.name = (*rules)->name;
    has_versions = !(*rules)->versions.empty();
  }
  if (at == std::string_view::npos) {
    return choice;
  }
  choice.version = text.substr(at + 1);
  if (choice.version.empty()) {
    return failure(fmt::format("a version is missing after '{}@', for instance {}@1.2.3", name, name));
  }
  return has_versions ? Result<VersionedFramework>(choice)
                      : failure(fmt::format("framework {} has no versions; leave '@{}' out", name,
                                            choice.version.substr(0, 40)));
}

Job with_framework(Job job, const VersionedFramework& choice) {
  const bool is_of_family = !choice.family.empty() && rules_of(job).family == choice.family;
  if (!is_of_family) {
    job = with_framework(std::move(job),
                         choice.family.empty() ? choice.name : first_of_family(choice.family)->name);
  }
  if (!choice.version.empty()) {
    job.framework_version = choice.version;
  }
  return job;
}

void pad_vocab_for_training(ModelConfig& model) {
  constexpr std::int64_t multiple = 128;
  if (model.vocab_multiple <= 1 && !model.vocab_is_padded) {
    model.vocab_multiple = multiple;
  }
}

Result<Job> validated(Job job) {
  const SettingRules& settings = rules_of(job).settings;
  job.layout.folds_experts = false;
  job.layout.expert_replicas = 1;
  if (settings.prepare != nullptr) {
    settings.prepare(job);
  }
  return checked(std::move(job), {settings.settle, settings.pads_to_tensor_ranks,
                                  settings.takes_uneven_stages, settings.splits_heads_of_groups});
}

}  // namespace commlens
