#include "commlens/frameworks/frameworks.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"
#include "commlens/frameworks/commlens/framework.hpp"
#include "commlens/frameworks/deepspeed/framework.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/huggingface/reader.hpp"
#include "commlens/frameworks/megatron/framework.hpp"
#include "commlens/frameworks/megatron/reader.hpp"
#include "commlens/frameworks/neox/framework.hpp"
#include "commlens/frameworks/neox/reader.hpp"
#include "commlens/frameworks/paper/framework.hpp"
#include "commlens/frameworks/torch/framework.hpp"

namespace commlens {
namespace {

const FrameworkRules* found(std::string_view name) {
  const auto all = frameworks();
  const auto rules =
      std::find_if(all.begin(), all.end(), [&](const FrameworkRules& one) { return one.name == name; });
  return rules == all.end() ? nullptr : &*rules;
}

}  // namespace

std::span<const FrameworkRules> frameworks() {
  static const std::vector<FrameworkRules> all = [] {
    std::vector<FrameworkRules> rules = {paper::rules(), deepspeed::rules(), neox::rules(), megatron::rules()};
    for (FrameworkRules& one : pytorch::rules()) {
      rules.push_back(std::move(one));
    }
    rules.push_back(trainer::rules());
    return rules;
  }();
  return all;
}

std::span<const ConfigReader> config_readers() {
  static const std::array all = {huggingface::reader(), megatron::reader(), neox::reader(),
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
  job.framework = framework;
  job.framework_version.clear();
  if (const auto adopt = rules_of(job).settings.adopt) {
    adopt(job);
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
  return checked(std::move(job), {settings.settle, settings.pads_to_tensor_ranks});
}

}  // namespace commlens
