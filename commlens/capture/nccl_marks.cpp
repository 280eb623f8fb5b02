// The functions of commlens.h in the libraries that observe NCCL.
#include "commlens/capture/nccl_export.hpp"
#include "commlens/capture/nccl_process.hpp"

using commlens::capture::NcclProcess;

COMMLENS_NCCL_EXPORT void commlens_mark_iteration(int iteration) {
  if (NcclProcess* const process = NcclProcess::of_process(); process != nullptr && iteration >= -1) {
    process->set_iteration(iteration);
  }
}

COMMLENS_NCCL_EXPORT void commlens_mark_phase(const char* phase) {
  if (NcclProcess* const process = NcclProcess::of_process(); process != nullptr && phase != nullptr) {
    process->set_phase(commlens::phase_from(phase));
  }
}

COMMLENS_NCCL_EXPORT void commlens_mark_pause(double seconds) {
  if (NcclProcess* const process = NcclProcess::of_process(); process != nullptr) {
    process->announce_pause(seconds);
  }
}

COMMLENS_NCCL_EXPORT void commlens_mark_micro_batch(int micro_batch) {
  if (NcclProcess* const process = NcclProcess::of_process(); process != nullptr && micro_batch >= -1) {
    process->set_micro_batch(micro_batch);
  }
}
