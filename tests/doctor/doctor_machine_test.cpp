// Machine files of machines that are described by libraries: commlens doctor --machine.
#include "commlens/app/doctor_machine.hpp"

#include <gtest/gtest.h>

#include "commlens/machine/machine_reader.hpp"
#include "commlens/transport/gpu_management.hpp"
#include "commlens/transport/hardware.hpp"

namespace commlens {
namespace {

GpuList fake_nvidia() { return gpus_here(FAKE_NVML, {}); }

Hardware two_sockets() {
  Hardware hardware{"hwloc 2.9.0", "GenuineIntel", "Intel Xeon", 2, 2, 112, 2048.0, {}};
  hardware.devices = {{"10de:2330", "gpu", "0000:1b:00.0", 0, 63.0, {}, ""},
                      {"eth0", "nic", "0000:03:00.0", 0, 7.9, 3.125, "Ethernet"},
                      {"mlx5_0", "nic", "0000:18:00.0", 0, 63.0, 50.0, "NDR InfiniBand"},
                      {"mlx5_1", "nic", "0000:98:00.0", 1, 63.0, 50.0, "NDR InfiniBand"}};
  return hardware;
}

TEST(GpusHere, AreWhatNvmlSays) {
  const GpuList list = fake_nvidia();
  ASSERT_EQ(list.gpus.size(), 2U);
  const GpuFacts& gpu = list.gpus.front();
  EXPECT_EQ(list.source, "NVML (driver 550.54.15)");
  EXPECT_EQ(gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu.architecture, "hopper");
  EXPECT_EQ(gpu.memory_gib, 80);
  EXPECT_NEAR(*gpu.memory_rate, 3352, 1);  // 2 x 2619 MHz x 640 bytes
  EXPECT_EQ(gpu.links, 18);
  EXPECT_TRUE(gpu.is_switched);
}

TEST(GpusHere, AreWhatRocmSmiSays) {
  const GpuList list = gpus_here("libnone.so", {"libnone.so", FAKE_ROCM_SMI});
  ASSERT_EQ(list.gpus.size(), 1U);
  EXPECT_EQ(list.source, "ROCm SMI");
  EXPECT_EQ(list.gpus.front().name, "AMD Instinct MI250X");
  EXPECT_EQ(list.gpus.front().architecture, "cdna2");
  EXPECT_EQ(list.gpus.front().memory_gib, 64);
  EXPECT_FALSE(list.gpus.front().links);
}

TEST(GpusHere, AreNoneWithoutALibrary) { EXPECT_TRUE(gpus_here("libnone.so", {}).gpus.empty()); }

TEST(MachineFromHardware, HasWhatIsKnownWithItsSource) {
  const Machine machine = machine_from_hardware(two_sockets(), fake_nvidia(), "node1");
  EXPECT_EQ(machine.name, "node1");
  EXPECT_EQ(machine.title, "node1, 2 GPUs of NVIDIA H100 80GB HBM3");
  EXPECT_EQ(machine.ranks_per_node.value, 2);
  EXPECT_EQ(machine.cpu, CpuVendor::intel);
  EXPECT_EQ(machine.processor.architecture, Architecture::hopper);
  EXPECT_TRUE(machine.processor.peaks.empty());
  EXPECT_EQ(machine.up.kind, "nvswitch");
  EXPECT_EQ(machine.up.bandwidth->value, 450);
  EXPECT_EQ(machine.up.bandwidth->confidence, 'D');
  EXPECT_EQ(machine.out.nics->value, 2);  // those of the fabric
  EXPECT_EQ(machine.out.bandwidth->value, 50);
  EXPECT_EQ(machine.host->devices.size(), 4U);
  EXPECT_TRUE(missing_numbers(machine).empty());
  const std::string file = machine_json(machine);
  const Result<Machine> again = read_machine("node1.json", file);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(machine_json(*again), file);
}

TEST(MachineFromHardware, LeavesOutWhatNobodySays) {
  Hardware hardware = two_sockets();
  hardware.devices = {{"eth0", "nic", "0000:03:00.0", {}, {}, {}, "Ethernet"}};
  const Machine machine = machine_from_hardware(hardware, {}, "node1");
  EXPECT_EQ(machine.title, "node1, 112 cores of Intel Xeon");
  EXPECT_EQ(missing_numbers(machine),
            (std::vector<std::string>{"scale_up.bandwidth", "scale_out.bandwidth"}));
  const std::string file = machine_json(machine);
  EXPECT_EQ(file.find("\"peaks\""), std::string::npos);
  const Result<Machine> again = read_machine("node1.json", file);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(machine_json(*again), file);
}

TEST(PortRate, IsThatOfTheKernelsLine) {
  EXPECT_EQ(port_rate("200 Gb/sec (4X HDR)"), 25.0);
  EXPECT_EQ(port_network("200 Gb/sec (4X HDR)"), "HDR InfiniBand");
  EXPECT_EQ(port_rate(""), std::nullopt);
  EXPECT_EQ(port_network(""), "InfiniBand");
}

}  // namespace
}  // namespace commlens
