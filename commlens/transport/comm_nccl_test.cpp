#include <array>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "commlens/transport/nccl_api.hpp"
#include "commlens/transport/nccl_world.hpp"

namespace commlens {
namespace {

class NoWork final : public Work {
 public:
  void wait() override {}
  bool is_complete() override { return true; }
};

/// A job of one rank, which counts calls and does not change buffers.
class OneRank final : public Communicator {
 public:
  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return GroupRank{0}; }
  std::unique_ptr<Work> start(const CommCall& /*call*/) override {
    ++calls_;
    return std::make_unique<NoWork>();
  }
  std::unique_ptr<Communicator> split(std::int64_t /*color*/, std::int64_t /*key*/) override {
    return nullptr;
  }
  void abort(std::string_view reason) override { throw std::logic_error(std::string(reason)); }

  int calls() const { return calls_; }

 private:
  std::vector<Rank> members_{Rank{0}};
  int calls_ = 0;
};

constexpr std::array k_absent{"libcommlens-absent.so", "libcommlens-absent.so.1"};
constexpr std::array k_c_library{"libc.so.6"};

TEST(NcclApi, NamesTheLibraryThatIsMissingOfEachVendor) {
  const std::array vendors{GpuVendor{"NCCL", k_absent, k_c_library, "cuda"},
                           GpuVendor{"RCCL", k_c_library, k_absent, "hip"}};
  const Result<NcclApi> api = load_nccl(vendors);
  ASSERT_FALSE(api);
  const std::string& message = api.error().message;
  EXPECT_NE(message.find("NCCL: libcommlens-absent.so:"), std::string::npos) << message;
  EXPECT_NE(message.find("RCCL: libcommlens-absent.so:"), std::string::npos) << message;
  EXPECT_NE(message.find("install"), std::string::npos) << message;
}

TEST(NcclApi, NamesAFunctionThatIsMissing) {
  const std::array vendors{GpuVendor{"NCCL", k_c_library, k_c_library, "cuda"}};
  const Result<NcclApi> api = load_nccl(vendors);
  ASSERT_FALSE(api);
  EXPECT_NE(api.error().message.find("NCCL lacks ncclGetUniqueId"), std::string::npos) << api.error().message;
}

TEST(NcclApi, LoadsEveryFunctionOfAnInstalledLibrary) {
  const Result<const NcclApi*> api = loaded_nccl();
  if (!api) {
    GTEST_SKIP() << api.error().message;
  }
  EXPECT_NE((*api)->name.find("CCL 2."), std::string::npos) << (*api)->name;
}

TEST(NcclWorld, NotifiesTheOtherRanksBeforeItRefuses) {
  OneRank control;
  const auto world = open_nccl_world(control, -1);
  ASSERT_FALSE(world);
  EXPECT_EQ(control.calls(), 1)
      << world.error().message;  // the agreement, before anything that waits for all
}

TEST(NcclWorld, SaysWhatIsWrongWithTheDevice) {
  if (!loaded_nccl()) {
    GTEST_SKIP() << "no NCCL or RCCL is installed";
  }
  OneRank control;
  const auto world = open_nccl_world(control, 4096);
  ASSERT_FALSE(world);
  EXPECT_NE(world.error().message.find("GPU"), std::string::npos) << world.error().message;
}

}  // namespace
}  // namespace commlens
