#include "commlens/report/svg.hpp"

#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <variant>

#include <dlfcn.h>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"
#include "commlens/base/units.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

constexpr const char* k_charts_file = "libcommlens-charts.so";

void append_named(std::string& out, std::string_view key, std::string_view text) {
  out += fmt::format("\"{}\":", key);
  append_json_string(out, text);
}

void append_dictionary(std::string& out, const TextColumn& column) {
  out += ",\"dictionary\":[";
  for (std::size_t at = 0; at < column.dictionary().size(); ++at) {
    out += at == 0 ? "" : ",";
    append_json_string(out, column.dictionary()[at]);
  }
  out += ']';
}

std::string chart_head(const Figure& figure) {
  std::string out = "{";
  append_named(out, "id", figure.id);
  append_named(out += ',', "title", figure.title);
  append_named(out += ',', "caption", figure.caption);
  append_named(out += ',', "kind", name_of(figure.kind));
  out += fmt::format(",\"rows\":{},\"options\":", figure.rows());
  append_options_json(out, figure.options);
  out += ",\"columns\":[";
  for (std::size_t at = 0; at < figure.columns.size(); ++at) {
    const FigureColumn& column = figure.columns[at];
    append_named(out += at == 0 ? "{" : ",{", "name", column.name);
    append_named(out += ',', "title", column.title);
    append_named(out += ',', "unit", column.unit);
    if (const auto* texts = std::get_if<TextColumn>(&column.values)) {
      append_dictionary(out, *texts);
    }
    out += '}';
  }
  return out + "]}";
}

std::string chart_settings(const SvgOptions& options) {
  std::string out = fmt::format("{{\"width\":{},\"theme\":\"{}\",\"chosen\":[", options.width,
                                options.theme == SvgTheme::dark ? "dark" : "light");
  for (std::size_t at = 0; at < options.chosen.size(); ++at) {
    append_json_string(out += at == 0 ? "[" : ",[", options.chosen[at].first);
    append_json_string(out += ',', options.chosen[at].second);
    out += ']';
  }
  return out + "]}";
}

std::vector<double> chart_values(const FigureColumn& column) {
  if (const auto* numbers = std::get_if<std::vector<double>>(&column.values)) {
    return *numbers;
  }
  std::vector<double> values;
  values.reserve(column.rows());
  if (const auto* texts = std::get_if<TextColumn>(&column.values)) {
    values.assign(texts->codes().begin(), texts->codes().end());
    return values;
  }
  for (const std::int64_t whole : std::get<std::vector<std::int64_t>>(column.values)) {
    values.push_back(whole == k_no_value ? std::numeric_limits<double>::quiet_NaN()
                                         : static_cast<double>(whole));
  }
  return values;
}

/// The entry of the module.
Result<ChartEngineFunction> charts_entry() {
  const std::optional<std::filesystem::path> path = module_file(k_charts_file);
  if (!path) {
    return failure(
        fmt::format("charts cannot be drawn here: {} is not in {}; build commlens where duktape-dev and npm "
                    "are installed, or name its directory in COMMLENS_MODULE_PATH",
                    k_charts_file, searched_for_modules()));
  }
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = module == nullptr ? nullptr : dlsym(module, "commlens_chart_engine");
  if (entry == nullptr) {
    return failure(fmt::format("cannot load {}: {}; install Duktape (libduktape207), or rebuild commlens",
                               path->string(), dlerror()));
  }
  return reinterpret_cast<ChartEngineFunction>(entry);
}

}  // namespace

bool has_chart(const Figure& figure) { return figure.kind != FigureKind::table && figure.rows() > 0; }

Result<SvgDrawer> SvgDrawer::open() {
  return charts_entry().and_then([](ChartEngineFunction entry) -> Result<SvgDrawer> {
    std::unique_ptr<ChartEngine> engine;
    entry(engine);
    if (engine == nullptr) {
      return failure(
          "charts cannot be drawn here: commlens was built without node and npm; install them and rebuild");
    }
    return SvgDrawer(std::move(engine));
  });
}

Result<std::string> SvgDrawer::draw(const Figure& figure, const SvgOptions& options) const {
  const auto [least, most] = k_svg_widths;
  if (options.width < least || options.width > most) {
    return failure(
        fmt::format("an SVG {} pixels wide: choose a width from {} to {}", options.width, least, most));
  }
  if (!has_chart(figure)) {
    return std::string();
  }
  const std::size_t limit = figure.kind == FigureKind::bars ? k_svg_bars : k_svg_rows;
  if (figure.rows() > limit) {
    return failure(fmt::format("{}: {} rows are too many, up to {} are drawn", figure.id,
                               with_commas(static_cast<std::int64_t>(figure.rows())),
                               with_commas(static_cast<std::int64_t>(limit))));
  }
  ChartOrder order{chart_head(figure), chart_settings(options), {}};
  for (const FigureColumn& column : figure.columns) {
    order.columns.push_back(chart_values(column));
  }
  return engine_->draw(order).map_error(
      [&](const Error& error) { return Error{fmt::format("{}: {}", figure.id, error.message)}; });
}

}  // namespace commlens
