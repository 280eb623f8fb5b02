// Renders the result of `compare` in each format.
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/compare.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/explain_report.hpp"
#include "commlens/report/regression_report.hpp"
#include "commlens/report/whole_job_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

Json guesses_json(const std::vector<SettingGuess>& guesses) {
  Json json = Json::array();
  for (const SettingGuess& guess : guesses) {
    json.push_back({{"setting", guess.setting},
                    {"value", guess.value},
                    {"explained_calls_all_ranks", guess.explained},
                    {"remaining_calls_all_ranks", guess.remaining}});
  }
  return json;
}

std::string text_of(const FoundInLog& found, const TextStyle& style) {
  std::string text = logged_text(found.match.comparison, style, found.other);
  if (const std::optional<std::int64_t>& dp = found.match.fitted_dp) {
    text += fmt::format(
        "\nnothing says how many ranks ran: dp {} fits the log best; --ranks or --dp decides\n", *dp);
  }
  return text;
}

std::string text_of(const FoundInVolumes& found, const TextStyle& style) {
  return volumes_text(found.rows, style) + explanation_text(found.explanation, style);
}

std::string text_of(const WholeJobComparison& found, const TextStyle& style) {
  return whole_job_text(found, style);
}

std::string text_of(const FoundInCalls& found, const TextStyle& style) {
  if (!found.why) {
    return comparison_text(found.comparison, found.order_counts, style);
  }
  return comparison_head(found.comparison, found.order_counts, style) +
         explained_differences_text(found.why->differences, found.why->explanation, found.why->hints, style);
}

Json json_of(const FoundInLog& found) {
  Json json = logged_json(found.match.comparison, found.other);
  if (found.match.fitted_dp) {
    json["dp_fitted"] = *found.match.fitted_dp;
  }
  return json;
}

Json json_of(const FoundInVolumes& found) {
  Json json = volumes_json(found.rows);
  json["iteration"] = found.explanation.iteration;
  add_explanation(found.explanation, json);
  return json;
}

Json json_of(const WholeJobComparison& found) { return whole_job_json(found); }

Json json_of(const FoundInCalls& found) {
  Json json = comparison_json(found.comparison, found.order_counts);
  if (found.why) {
    add_explanation(found.why->explanation, json);
    json["looks_like"] = guesses_json(found.why->guesses);
  }
  return json;
}

std::string csv_of(const FoundInLog& found) { return logged_csv(found.match.comparison, found.other); }
std::string csv_of(const FoundInVolumes& found) { return volumes_csv(found.rows, &found.explanation); }
std::string csv_of(const WholeJobComparison& found) { return whole_job_csv(found); }
std::string csv_of(const FoundInCalls& found) { return comparison_csv(found.comparison, found.order_counts); }

/// The verdict first, a hint if there is one, then descriptions of A and B.
std::string whole_text(const CompareResult& result, const TextStyle& style) {
  std::string text = std::visit([&](const auto& found) { return text_of(found, style); }, result.found);
  const auto* const calls = std::get_if<FoundInCalls>(&result.found);
  const std::size_t verdict_end = text.find('\n') + 1;
  const std::string head = text.substr(0, verdict_end) + (calls == nullptr ? "" : calls->question) +
                           fmt::format("A = {}\nB = {}\n", result.a.description(), result.b.description());
  text.replace(0, verdict_end, wrapped(head, style));
  return text;
}

Json whole_json(const CompareResult& result) {
  Json json = std::visit([](const auto& found) { return json_of(found); }, result.found);
  for (const auto& [key, side] : {std::pair("a", &result.a), std::pair("b", &result.b)}) {
    json[key] = side->description();
    if (side->is_prediction()) {
      json["verified"][key] = side->trace.provenance.verified;
      json["unverified"][key] = side->unverified;
    }
  }
  return json;
}

}  // namespace

std::string rendered(const CompareResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return whole_text(result, style); }, [&] { return whole_json(result); },
      [&] { return std::visit([](const auto& found) { return csv_of(found); }, result.found); });
}

std::string rendered(const RegressionResult& result, Format format, const TextStyle& style) {
  if (format == Format::csv) {
    return regression_csv(result.regression);
  }
  if (format == Format::json) {
    Json json = regression_json(result.regression);
    json["a"] = result.a;
    json["b"] = result.b;
    return json_result(json);
  }
  std::string text = regression_text(result.regression, style);
  text.insert(text.find('\n') + 1, wrapped(fmt::format("A = {}\nB = {}\n", result.a, result.b), style));
  return text;
}

}  // namespace commlens
