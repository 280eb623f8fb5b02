#include "commlens/frameworks/read_config.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/config/argument_words.hpp"
#include "commlens/config/toml_document.hpp"
#include "commlens/config/top_level_keys.hpp"
#include "commlens/frameworks/built_in_layouts.hpp"
#include "commlens/frameworks/case_file.hpp"
#include "commlens/frameworks/fitting.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

/// Files of one kind, in the order of the command line.
struct Documents {
  const ConfigReader* reader = nullptr;
  std::vector<ConfigNode> files;
};

/// The files of one command line, sorted by what they hold.
struct Files {
  std::optional<Job> preset;
  std::vector<Documents> jobs;       // each describes a whole job
  std::vector<Documents> additions;  // settings alone
};

/// All kinds, in the order in which a file is tried on them.
std::vector<const ConfigReader*> readers() {
  std::vector<const ConfigReader*> all{&case_reader()};
  for (const ConfigReader& reader : config_readers()) {
    all.push_back(&reader);
  }
  return all;
}

std::vector<std::string> document_keys(const ConfigFile& file, std::string_view content) {
  if (file.is_script) {
    return {};
  }
  if (file.is_arguments) {
    return argument_names(content);
  }
  if (!file.is_toml()) {
    return top_level_keys(content);
  }
  Result<ConfigNode> document = parse_toml(file.path.string(), content);
  if (!document) {
    return {};
  }
  use_underscores(*document);
  return std::move(document->keys);
}

/// The kind of a file; null for what is no configuration.
const ConfigReader* reader_of(const std::filesystem::path& path, std::string_view content) {
  ConfigFile file{.path = path,
                  .is_arguments = starts_with_argument(content),
                  .is_script = is_shell_script(path, content)};
  file.keys = document_keys(file, content);
  for (const ConfigReader* const reader : readers()) {
    if (reader->recognises(file)) {
      return reader;
    }
  }
  return nullptr;
}

template <typename Predicate>
std::vector<std::string_view> names_of_readers(Predicate is_wanted) {
  std::vector<std::string_view> names;
  for (const ConfigReader& reader : config_readers()) {
    if (is_wanted(reader)) {
      names.push_back(reader.name);
    }
  }
  return names;
}

tl::unexpected<Error> unknown_name(const std::string& name) {
  std::vector<std::string_view> known = preset_names();
  const std::vector<std::string_view> layouts = built_in_layout_names();
  known.insert(known.end(), layouts.begin(), layouts.end());
  const std::string meant = nearest(name, known);
  return failure(fmt::format("'{}' is neither a file nor a built-in model; {}", name.substr(0, 100),
                             meant.empty() ? fmt::format("the models are {}", fmt::join(known, " "))
                                           : fmt::format("did you mean {}?", meant)));
}

tl::unexpected<Error> no_configuration(const std::string& name) {
  std::vector<std::string_view> kinds = names_of_readers([](const ConfigReader&) { return true; });
  const std::string ours =
      fmt::format("{} with 'framework' (YAML, or TOML in a file named *.toml)", k_case_file);
  kinds.push_back(ours);
  return failure(fmt::format("{}: no configuration: expected {}", name, listed_names(std::move(kinds))));
}

/// Puts a document beside the others of its kind, or in a row of its own.
void add_to(std::vector<Documents>& all, const ConfigReader& reader, ConfigNode document) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const Documents& documents) {
    return documents.reader == &reader && !reader.together.empty();
  });
  Documents& row = same == all.end() ? all.emplace_back(Documents{.reader = &reader}) : *same;
  row.files.push_back(std::move(document));
}

Result<void> add(const std::string& name, Files& files) {
  std::error_code status;
  const bool exists = std::filesystem::exists(name, status);
  if (const std::optional<Job> job = preset(name);
      job && (!exists || std::filesystem::is_directory(name, status))) {
    if (files.preset) {
      return failure(fmt::format("{}: one built-in model is enough", name));
    }
    files.preset = job;
    return {};
  }
  const EmbeddedFile* const layout = exists ? nullptr : built_in_layout(name);
  if (!exists && layout == nullptr) {
    return unknown_name(name);
  }
  const Result<std::string> content =
      layout == nullptr ? read_text_file(name, k_config_size_limit) : std::string(layout->text);
  if (!content) {
    return tl::unexpected(content.error());
  }
  const std::string file(layout == nullptr ? name : layout->name);
  const ConfigReader* const reader = reader_of(file, *content);
  Result<ConfigNode> document = (reader == nullptr ? parse_document : reader->parse)(file, *content);
  if (!document) {
    return tl::unexpected(document.error());
  }
  if (reader == nullptr || document->kind != ConfigNode::Kind::map) {
    return no_configuration(name);
  }
  add_to(reader->read == nullptr ? files.additions : files.jobs, *reader, std::move(*document));
  return {};
}

/// What describes several jobs, and what one job has of several files, for the error.
tl::unexpected<Error> more_than_one_job() {
  std::string together;
  for (const ConfigReader& reader : config_readers()) {
    together += reader.together.empty() ? "" : fmt::format("the {} of one job, ", reader.together);
  }
  return failure(fmt::format(
      "these files describe more than one job; give one built-in model, {}or one other file", together));
}

/// A job takes settings of one framework, each kind of its files once.
Result<void> check_additions(const std::vector<Documents>& additions) {
  const Documents& first = additions[0];
  for (std::size_t at = 1; at < additions.size(); ++at) {
    const Documents& next = additions[at];
    if (next.reader == additions[at - 1].reader) {
      return failure(fmt::format("{}: a job takes {} once, {} is one already", next.files[0].file,
                                 next.reader->name, additions[at - 1].files[0].file));
    }
    if (next.reader->framework != first.reader->framework) {
      return failure(fmt::format("{}: {} does not go with {}", next.files[0].file, next.reader->name,
                                 first.files[0].file));
    }
  }
  return {};
}

/// Says which files do not belong together.
Result<void> check_combination(const Files& files) {
  const std::size_t jobs = (files.preset ? 1U : 0U) + files.jobs.size();
  if (jobs > 1) {
    return more_than_one_job();
  }
  if (files.additions.empty()) {
    return jobs == 1 ? Result<void>{}
                     : failure("no configuration: give a built-in model such as 1.3B, or a file");
  }
  const ConfigReader& reader = *files.additions[0].reader;
  const std::string& file = files.additions[0].files[0].file;
  if (const Result<void> ok = check_additions(files.additions); !ok) {
    return ok;
  }
  if (jobs == 0) {
    return failure(fmt::format("{}: {} holds no model; name a built-in model or {} beside it", file,
                               reader.name, listed_names(names_of_readers([](const ConfigReader& other) {
                                 return other.additions == Additions::added;
                               }))));
  }
  if (!files.jobs.empty() && files.jobs[0].reader->additions == Additions::refused) {
    return failure(fmt::format("{}: {} does not go with {}", file, reader.name, files.jobs[0].files[0].file));
  }
  return {};
}

Result<Job> job_of(const Files& files) {
  if (files.additions.empty()) {
    return files.preset ? *files.preset : files.jobs[0].reader->read(files.jobs[0].files);
  }
  if (!files.preset && files.jobs[0].reader->additions == Additions::merged) {
    std::vector<ConfigNode> all = files.jobs[0].files;
    for (const Documents& extra : files.additions) {
      all.push_back(extra.files[0]);
    }
    return files.jobs[0].reader->read(all);
  }
  Result<Job> job = files.preset ? *files.preset : files.jobs[0].reader->read(files.jobs[0].files);
  for (const Documents& extra : files.additions) {
    if (!job) {
      return job;
    }
    if (const Result<void> ok = extra.reader->add(extra.files[0], *job); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  // A built-in model of a framework's own stays its job.
  const bool is_of_framework = files.preset && !files.preset->is_converted;
  return is_of_framework ? job : with_framework(std::move(*job), files.additions[0].reader->framework);
}

}  // namespace

std::string_view sniff_config(const std::filesystem::path& path, std::string_view content) {
  const ConfigReader* const reader = reader_of(path, content);
  return reader == nullptr ? "" : reader->name;
}

std::string config_kinds_text(std::string_view preset) {
  std::vector<std::string_view> kinds;
  for (const ConfigReader& reader : config_readers()) {
    if (reader.read != nullptr) {
      kinds.push_back(reader.together.empty() ? reader.name : reader.together);
    }
  }
  kinds.push_back(k_case_file);
  return fmt::format("A preset ({}), {}", preset, listed_names(std::move(kinds)));
}

Result<Job> read_config(const std::vector<std::string>& config, std::string_view framework) {
  Files files;
  for (const std::string& name : config) {
    if (const Result<void> ok = add(name, files); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  // In the order in which their settings apply, that of the list of readers.
  std::stable_sort(files.additions.begin(), files.additions.end(),
                   [](const Documents& a, const Documents& b) { return a.reader < b.reader; });
  if (const Result<void> ok = check_combination(files); !ok) {
    return tl::unexpected(ok.error());
  }
  Result<Job> job = job_of(files);
  if (!job || framework.empty()) {
    return job;
  }
  const Result<VersionedFramework> chosen = versioned_framework(framework);
  return chosen ? Result<Job>(with_framework(std::move(*job), *chosen)) : tl::unexpected(chosen.error());
}

}  // namespace commlens
