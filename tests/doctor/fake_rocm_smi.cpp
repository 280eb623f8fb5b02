// ROCm SMI of a machine with one MI250X die, as far as commlens/transport/gpu_management.cpp asks.
#include <cstdint>
#include <cstdio>

extern "C" {
int rsmi_init(std::uint64_t /*flags*/) { return 0; }
int rsmi_shut_down() { return 0; }
int rsmi_num_monitor_devices(std::uint32_t* count) {
  *count = 1;
  return 0;
}
int rsmi_dev_name_get(std::uint32_t /*device*/, char* text, std::size_t size) {
  std::snprintf(text, size, "AMD Instinct MI250X");
  return 0;
}
int rsmi_dev_memory_total_get(std::uint32_t /*device*/, int type, std::uint64_t* bytes) {
  *bytes = std::uint64_t{64} << 30U;
  return type == 0 ? 0 : 1;
}
int rsmi_dev_id_get(std::uint32_t /*device*/, std::uint16_t* number) {
  *number = 0x7408;
  return 0;
}
}
