#include "commlens/advice/advice.hpp"

namespace commlens {

double SmallMessages::share() const {
  if (time && all_time) {
    return all_time->count() == 0
               ? 0.0
               : static_cast<double>(time->count()) / static_cast<double>(all_time->count());
  }
  return all_calls == 0 ? 0.0 : static_cast<double>(calls) / static_cast<double>(all_calls);
}

}  // namespace commlens
