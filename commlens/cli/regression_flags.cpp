#include "commlens/cli/regression_flags.hpp"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/base/wrapped.hpp"

namespace commlens {
namespace {

/// "5%", "5 %" or "0.05".
Result<double> share_from(const std::string& text) {
  constexpr double whole = 100;
  std::string_view number = text;
  const bool is_percent = number.ends_with('%');
  number.remove_suffix(is_percent ? 1 : 0);
  while (number.ends_with(' ')) {
    number.remove_suffix(1);
  }
  const Result<double> value = parse_number(number);
  if (!value || *value < 0) {
    return failure(
        fmt::format("--tolerance {}: write a share such as 5% or 0.05, not below 0", text.substr(0, 40)));
  }
  return is_percent ? *value / whole : *value;
}

}  // namespace

void RegressionFlags::declare(CLI::App& verb) {
  const char* const group = "Regression";
  std::vector<CLI::Option*> others = verb.get_options();
  CLI::Option* const asked = verb.add_flag("--regression", asked_,
                                           "A and B are runs of one job: compare their times; exit 1 if B is "
                                           "slower; goes with --format and -o only");
  verb.add_option("--tolerance", tolerance_, "Slower by more than this counts, if it is significant")
      ->type_name("SHARE")
      ->capture_default_str()
      ->group(group)
      ->needs(asked);
  verb.add_option("--metric", metric_, "Statistic of the calls of an iteration")
      ->check(CLI::IsMember({"p50", "p95"}))
      ->capture_default_str()
      ->group(group)
      ->needs(asked);
  asked->group(group);
  // Options that select or predict calls do not apply here. Option::excludes would add that to the help of
  // every option.
  std::erase_if(others, [](const CLI::Option* other) {
    const std::string& name = other->get_single_name();
    return other->get_positional() || name == "format" || name == "output" || name == "help";
  });
  verb.parse_complete_callback([asked, others] {
    for (const CLI::Option* const other : others) {
      if (asked->count() > 0 && other->count() > 0) {
        throw CLI::ExcludesError(asked->get_name(), "--" + other->get_single_name());
      }
    }
  });
}

Result<RegressionOptions> RegressionFlags::options() const {
  return share_from(tolerance_).map([&](double tolerance) {
    RegressionOptions options;
    options.tolerance = tolerance;
    options.metric = metric_ == "p95" ? CallMetric::p95 : CallMetric::p50;
    return options;
  });
}

}  // namespace commlens
