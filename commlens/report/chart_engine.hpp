#pragma once
#include <memory>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// A figure as the script of the charts (web/src/charts.ts) takes it.
struct ChartOrder {
  std::string head;      // JSON: all but the values of the columns
  std::string settings;  // JSON
  std::vector<std::vector<double>> columns;
};

/// What runs that script. Made by libcommlens-charts.so.
class ChartEngine {
 public:
  ChartEngine() = default;
  ChartEngine(const ChartEngine&) = delete;
  ChartEngine& operator=(const ChartEngine&) = delete;
  virtual ~ChartEngine() = default;

  /// The SVG; empty where there is no chart. Fails with what the script says.
  virtual Result<std::string> draw(const ChartOrder& order) = 0;
};

/// `commlens_chart_engine` of the module. Leaves nothing where it was built without the script.
using ChartEngineFunction = void (*)(std::unique_ptr<ChartEngine>& engine);

}  // namespace commlens
