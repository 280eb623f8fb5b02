#include "commlens/comm/axis.hpp"

#include "commlens/base/check.hpp"

namespace commlens {

void no_axis_name() {
  check_failed("Axis::is_name(name)", "an axis has a short plain name", __FILE__, __LINE__);
}

std::optional<Axis> Axis::from(std::string_view name) {
  return is_name(name) ? std::optional<Axis>(Axis(name)) : std::nullopt;
}

}  // namespace commlens
