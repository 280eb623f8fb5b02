#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// A file of the command line before it is parsed.
struct ConfigFile {
  std::filesystem::path path;
  bool is_arguments = false;      // its first word is a `--name`
  bool is_script = false;         // of a shell
  std::vector<std::string> keys;  // at the top of a document, or of arguments, with underscores

  bool has(std::string_view key) const;
  bool has_any(bool (*is_wanted)(std::string_view key)) const;
  bool is_json() const { return path.extension() == ".json"; }
  bool is_toml() const { return path.extension() == ".toml"; }
  /// What a person writes: YAML, or the same settings as TOML.
  bool is_yaml() const { return path.extension() == ".yml" || path.extension() == ".yaml" || is_toml(); }
};

/// The document of a JSON, TOML or YAML file, by its name.
Result<ConfigNode> parse_document(const std::string& name, const std::string& content);

/// How files with settings but without a model go with those of a kind that describes a whole job.
enum class Additions : std::uint8_t {
  refused,
  merged,  // with the files of the job, which the reader reads together
  added    // to the job, which then follows the rules of the framework that the settings belong to
};

/// One kind of configuration: which files are of it, and how they become a job.
struct ConfigReader {
  std::string_view name;       // in messages, with its article: "a Hugging Face config.json"
  std::string_view together;   // of several files that describe one job: "x yml files"; empty: one alone does
  std::string_view framework;  // whose settings they are
  bool (*recognises)(const ConfigFile& file);
  Result<ConfigNode> (*parse)(const std::string& name, const std::string& content) = parse_document;
  /// The job of all files of this kind. Null: such a file describes no model and adds to a job.
  Result<Job> (*read)(const std::vector<ConfigNode>& files) = nullptr;
  Result<void> (*add)(const ConfigNode& file, Job& job) = nullptr;
  Additions additions = Additions::refused;
  /// Models that come with the framework, and the job of one; std::nullopt if there is none of that name.
  std::span<const std::string_view> preset_names;
  std::optional<Job> (*preset)(std::string_view name) = nullptr;
};

/// What a case file (docs/formats/case.md) may hold of one framework.
struct CaseRules {
  /// Sections with settings of the framework, beside the sections that all have. `micro_batch` and
  /// `micro_batches` of the job are 0 where the case leaves them to a section.
  std::vector<std::string_view> sections = {};
  Result<void> (*read_section)(std::string_view name, const ConfigNode& section, Job& job) = nullptr;
  /// The sections belong to cases with this framework (or another one with the same `read_section`) alone,
  /// and come after all others.
  bool is_own_section = false;
  /// Keys of the section `layout` that the framework reads. Null: none.
  void (*read_layout)(MapReader& reader, Job& job) = nullptr;
  /// Keys of the section `options` that the framework reads. Null: none.
  void (*read_options)(MapReader& reader, Job& job) = nullptr;
  /// A map with the arguments of the framework's own script, instead of model, layout and batch, and its
  /// job. `padded_vocab` is the vocabulary the run really had, 0 when it follows from the arguments;
  /// `version` is what the case names, or empty.
  std::string_view arguments;
  Result<Job> (*read_arguments)(const ConfigNode& map, std::int64_t padded_vocab,
                                const std::string& version) = nullptr;
  /// Keys of the case itself that belong to such a job. Null: none.
  void (*read_beside_arguments)(MapReader& document, Job& job) = nullptr;
  /// Cases with this framework describe model and batch in a way of their own: reads all their keys but
  /// `framework`, `framework_version`, `ranks` and `iterations`. Null: they have the sections that all have.
  Result<Job> (*read_job)(MapReader& document, const std::string& version) = nullptr;
  /// Sections of other frameworks are a configuration of theirs, which is carried over (SettingRules::adopt);
  /// without them there is nothing to carry over.
  bool adopts_sections = false;
};

}  // namespace commlens
