#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/report/chart_engine.hpp"
#include "commlens/report/figures/figure.hpp"

namespace commlens {

enum class SvgTheme : std::uint8_t { light, dark };

/// How a figure is drawn.
struct SvgOptions {
  std::int64_t width = 680;  // pixels, k_svg_widths; the height follows from the figure
  SvgTheme theme = SvgTheme::light;
  /// Of what a reader of the page can choose: {"measure", "message_bytes_all_ranks"}, {"iteration", "3"},
  /// {"log", "on"}. The rest is as the page begins.
  std::vector<std::pair<std::string, std::string>> chosen;
};

/// Least and most.
constexpr std::pair<std::int64_t, std::int64_t> k_svg_widths = {240, 4000};

/// Most rows of a figure that is drawn: twice what a report has; and of bars, of which each is a shape of its
/// own.
constexpr std::size_t k_svg_rows = 240'000;
constexpr std::size_t k_svg_bars = 10'000;

/// Whether a figure is more than its table: of a kind that is drawn, and with rows.
bool has_chart(const Figure& figure);

/// Draws figures as the page of the report does, by the same script, without a browser. The script is loaded
/// once, which takes a fifth of a second; then a figure takes some milliseconds, one of 100,000 rows some
/// seconds. For one thread at a time.
class SvgDrawer {
 public:
  /// Fails where libcommlens-charts.so is not there or was built without the script.
  static Result<SvgDrawer> open();

  /// The SVG of a figure, with its title and legend; empty where its table is all there is. Fails on more
  /// than k_svg_rows or k_svg_bars rows, on a width outside k_svg_widths, on what cannot be chosen, and where
  /// it would take more than a gigabyte or a minute.
  Result<std::string> draw(const Figure& figure, const SvgOptions& options = {}) const;

 private:
  explicit SvgDrawer(std::unique_ptr<ChartEngine> engine) : engine_(std::move(engine)) {}

  std::unique_ptr<ChartEngine> engine_;
};

}  // namespace commlens
