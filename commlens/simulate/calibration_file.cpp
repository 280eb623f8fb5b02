// The file that `commlens calibrate --rows` writes.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/check.hpp"
#include "commlens/config/json_document.hpp"
#include "commlens/simulate/run_calibration.hpp"
#include "commlens/simulate/run_table.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_schema = "commlens.training/1";
constexpr double k_most_spread = 5;

/// Seven digits, as they are written in the file.
double seven_digits(double value) { return std::stod(fmt::format("{:.7g}", value)); }

nlohmann::ordered_json family_json(const FamilyFit& family) {
  nlohmann::ordered_json coefficients = nlohmann::ordered_json::object();
  for (const Coefficient coefficient : family.fitted) {
    coefficients[std::string(facts_of(coefficient).key)] = seven_digits(family.coefficients[coefficient]);
  }
  return {{"name", family.name},
          {"gpu", family.gpu},
          {"source", family.source},
          {"rows", family.rows},
          {"bf16", family.has_bf16},
          {"fp8", family.has_small},
          {"fused_attention", family.has_fused},
          {"unfused_attention", family.has_unfused},
          {"longest_sequence", family.longest_sequence},
          {"only_model", family.only_model},
          {"spread", seven_digits(family.spread)},
          {"coefficients", coefficients}};
}

/// Fields of a family. The first mistake is kept.
class FamilyFields {
 public:
  FamilyFields(std::string_view file, const ConfigNode& node) : file_(file), node_(node) {}
  std::string text(std::string_view key) {
    const ConfigNode* const field = find(node_, key);
    if (field == nullptr || field->text.empty()) {
      fail(fmt::format("a family needs '{}'", key));
      return "";
    }
    return field->text;
  }
  bool flag(std::string_view key) { return text(key) == "true"; }
  double number(const ConfigNode& map, std::string_view key, double least, double most) {
    const ConfigNode* const field = find(map, key);
    const Result<double> value = field == nullptr ? failure("is not there") : as_number(*field);
    if (!value || !(*value >= least && *value <= most)) {
      fail(fmt::format("'{}' must be a number from {:g} to {:g}", key, least, most));
      return least;
    }
    return *value;
  }
  void fail(std::string reason) {
    error_ = error_.empty() ? fmt::format("{}:{}: {}", file_, node_.line, reason) : error_;
  }
  const std::string& error() const { return error_; }
  const ConfigNode& node() const { return node_; }

 private:
  std::string_view file_;
  const ConfigNode& node_;
  std::string error_;
};

FamilyFit family_of_node(FamilyFields& fields) {
  FamilyFit family;
  family.name = fields.text("name");
  family.gpu = fields.text("gpu");
  family.source = fields.text("source");
  family.rows = static_cast<std::int64_t>(fields.number(fields.node(), "rows", 1, 1e9));
  family.has_bf16 = fields.flag("bf16");
  family.has_small = fields.flag("fp8");
  family.has_fused = fields.flag("fused_attention");
  family.has_unfused = fields.flag("unfused_attention");
  family.longest_sequence =
      static_cast<std::int64_t>(fields.number(fields.node(), "longest_sequence", 1, 1e9));
  // Files of the first version lack it.
  if (const ConfigNode* const only = find(fields.node(), "only_model"); only != nullptr) {
    family.only_model = only->text;
  }
  family.spread = fields.number(fields.node(), "spread", 0.001, k_most_spread);
  const ConfigNode* const coefficients = find(fields.node(), "coefficients");
  for (const std::string& key : coefficients == nullptr ? std::vector<std::string>() : coefficients->keys) {
    const std::optional<Coefficient> coefficient = coefficient_from(key);
    if (!coefficient) {
      fields.fail(fmt::format("'{}' is no coefficient", key));
      continue;
    }
    const CoefficientFacts& facts = facts_of(*coefficient);
    family.fitted.push_back(*coefficient);
    // Seven digits may round a value that is on its limit beyond it.
    family.coefficients[*coefficient] =
        fields.number(*coefficients, key, facts.least * 0.999999, facts.most * 1.000001);
  }
  return family;
}

}  // namespace

std::string calibration_json(const RunCalibration& calibration) {
  nlohmann::ordered_json families = nlohmann::ordered_json::array();
  for (const FamilyFit& family : calibration.families) {
    families.push_back(family_json(family));
  }
  return nlohmann::ordered_json({{"schema", k_schema}, {"families", families}}).dump(1) + "\n";
}

Result<RunCalibration> read_calibration(std::string_view file, std::string_view content) {
  return parse_json(file, content).and_then([&](const ConfigNode& document) -> Result<RunCalibration> {
    const ConfigNode* const schema = find(document, "schema");
    const ConfigNode* const families = find(document, "families");
    if (schema == nullptr || schema->text != k_schema || families == nullptr) {
      return failure(fmt::format("{}: is no calibration of training runs (schema {})", file, k_schema));
    }
    RunCalibration calibration;
    std::string error;
    for (const ConfigNode& node : families->items) {
      FamilyFields fields(file, node);
      calibration.families.push_back(family_of_node(fields));
      error = error.empty() ? fields.error() : error;
    }
    return error.empty() ? Result<RunCalibration>(std::move(calibration)) : failure(error);
  });
}

const RunCalibration& built_in_calibration() {
  static const RunCalibration calibration = [] {
    for (const EmbeddedFile& file : built_in_training()) {
      if (file.stem() == "families") {
        const Result<RunCalibration> read = read_calibration("families.json", file.text);
        COMMLENS_CHECK(read, "the built-in file is valid");
        return *read;
      }
    }
    return RunCalibration();
  }();
  return calibration;
}

}  // namespace commlens
