#include "commlens/base/descriptor.hpp"

#include <unistd.h>

namespace commlens {

Descriptor::~Descriptor() {
  if (number_ >= 0) {
    close(number_);
  }
}

}  // namespace commlens
