#include "commlens/transport/mpi_world.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using Variable = test_support::ScopedVariable;

/// No launcher, even if one has started this test.
struct NoLauncher {
  Variable open_mpi{"OMPI_COMM_WORLD_SIZE", std::nullopt};
  Variable size{"PMI_SIZE", std::nullopt};
  Variable rank{"PMI_RANK", std::nullopt};
  Variable pmix{"PMIX_RANK", std::nullopt};
  Variable slurm{"SLURM_STEP_NUM_TASKS", std::nullopt};
};

std::string error_of(const std::string& library) {
  const auto world = open_mpi_world(library);
  return world ? "it has opened" : world.error().message;
}

TEST(MpiWorld, WithoutLauncherSaysHowToStart) {
  const NoLauncher none;
  for (const char* library : {"", "openmpi", "mpich"}) {
    EXPECT_EQ(error_of(library),
              "no MPI launcher started this process; start it with: mpirun -n N commlens ...")
        << "library=" << library;
  }
}

TEST(MpiWorld, RefusesAnUnknownLibraryByName) {
  EXPECT_EQ(error_of("lam"), "there is no MPI module 'lam'; openmpi and mpich are supported");
}

/// A directory whose modules are not libraries, so that no real module is loaded.
class MpiModules : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(testing::TempDir()) /
                 (std::string("commlens_") + test->name() + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    for (const char* library : {"openmpi", "mpich"}) {
      std::ofstream(directory_ / (std::string("libcommlens-mpi-") + library + ".so")) << "no library";
    }
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
};

TEST_F(MpiModules, AModuleThatCannotBeLoadedIsNamed) {
  const NoLauncher none;
  const Variable launcher("OMPI_COMM_WORLD_SIZE", "2");
  const Variable path("COMMLENS_MODULE_PATH", directory_.string());
  const std::string message = error_of("openmpi");
  EXPECT_NE(message.find("cannot load " + (directory_ / "libcommlens-mpi-openmpi.so").string()),
            std::string::npos)
      << message;
}

TEST_F(MpiModules, TheLaunchersVariablesChooseTheModule) {
  const NoLauncher none;
  const Variable path("COMMLENS_MODULE_PATH", directory_.string());
  const struct {
    const char* variable;
    const char* module;
  } cases[] = {{"OMPI_COMM_WORLD_SIZE", "libcommlens-mpi-openmpi.so"},
               {"PMI_SIZE", "libcommlens-mpi-mpich.so"},
               {"PMI_RANK", "libcommlens-mpi-mpich.so"},
               {"PMIX_RANK", "libcommlens-mpi-openmpi.so"}};
  for (const auto& [variable, module] : cases) {
    const Variable launcher(variable, "2");
    const std::string message = error_of("");
    EXPECT_NE(message.find(module), std::string::npos) << variable << ": " << message;
  }
}

TEST_F(MpiModules, ARequestedModulePrecedesTheLaunchers) {
  const NoLauncher none;
  const Variable path("COMMLENS_MODULE_PATH", directory_.string());
  const Variable launcher("PMI_SIZE", "2");
  const std::string message = error_of("openmpi");
  EXPECT_NE(message.find("libcommlens-mpi-openmpi.so"), std::string::npos) << message;
}

}  // namespace
}  // namespace commlens
