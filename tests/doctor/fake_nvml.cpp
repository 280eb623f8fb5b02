// NVML of a machine with two H100s, as far as commlens/transport/gpu_management.cpp asks.
#include <cstdio>

namespace {
int devices[2];
}

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "550.54.15");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetName(void* /*device*/, char* text, unsigned size) {
  std::snprintf(text, size, "NVIDIA H100 80GB HBM3");
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* /*device*/, unsigned long long* totals) {
  totals[0] = 85'899'345'920ULL;  // 80 GiB
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* /*device*/, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* /*device*/, int clock, unsigned* megahertz) {
  *megahertz = 2619;
  return clock == 2 ? 0 : 1;
}
int nvmlDeviceGetMemoryBusWidth(void* /*device*/, unsigned* bits) {
  *bits = 5120;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* /*device*/, unsigned link, unsigned* is_up) {
  *is_up = link < 18 ? 1 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* /*device*/, unsigned /*link*/, unsigned* type) {
  *type = 2;
  return 0;
}
}
