#include "commlens/frameworks/megatron/core_reader.hpp"

#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {

void read_case_keys(MapReader& document, Job& job) {
  document.choose("driver", {{"core", true}, {"pretrain", false}}, options(job).is_core_loop);
  document.accept("recorded_ranks ranks_recorded");
}

}  // namespace commlens::megatron
