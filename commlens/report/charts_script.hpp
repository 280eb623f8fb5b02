#pragma once
#include <string_view>

namespace commlens {

/// The program that draws charts without a page: web/src/charts.ts, bundled at build time. Pure ASCII, ES5.
/// Empty where the build had no npm. In libcommlens-charts.so alone.
std::string_view charts_script();

}  // namespace commlens
