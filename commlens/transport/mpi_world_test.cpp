#include "commlens/transport/mpi_world.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace commlens {
namespace {

/// Sets or removes an environment variable until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* text = std::getenv(name); text != nullptr) {
      before_ = text;
    }
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) const {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

/// No launcher, whatever has started this test.
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

/// A folder whose modules are no libraries, so that nothing real is loaded.
class MpiModules : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("commlens_") + test->name() + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    for (const char* library : {"openmpi", "mpich"}) {
      std::ofstream(folder_ / (std::string("libcommlens-mpi-") + library + ".so")) << "no library";
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(MpiModules, AModuleThatCannotBeLoadedIsNamed) {
  const NoLauncher none;
  const Variable launcher("OMPI_COMM_WORLD_SIZE", "2");
  const Variable path("COMMLENS_MODULE_PATH", folder_.string());
  const std::string message = error_of("openmpi");
  EXPECT_NE(message.find("cannot load " + (folder_ / "libcommlens-mpi-openmpi.so").string()),
            std::string::npos)
      << message;
}

TEST_F(MpiModules, TheLaunchersVariablesChooseTheModule) {
  const NoLauncher none;
  const Variable path("COMMLENS_MODULE_PATH", folder_.string());
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

TEST_F(MpiModules, AnAskedModuleGoesBeforeTheLaunchers) {
  const NoLauncher none;
  const Variable path("COMMLENS_MODULE_PATH", folder_.string());
  const Variable launcher("PMI_SIZE", "2");
  const std::string message = error_of("openmpi");
  EXPECT_NE(message.find("libcommlens-mpi-openmpi.so"), std::string::npos) << message;
}

}  // namespace
}  // namespace commlens
