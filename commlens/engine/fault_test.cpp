#include "commlens/engine/fault.hpp"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "commlens/base/test_support.hpp"

namespace commlens::engine {
namespace {

/// Sets COMMLENS_FAULT until the end of the scope.
class FaultVariable : test_support::ScopedVariable {
 public:
  explicit FaultVariable(const std::optional<std::string>& text) : ScopedVariable("COMMLENS_FAULT", text) {}
};

TEST(Fault, IsNoneWithoutTheVariable) {
  const FaultVariable variable(std::nullopt);
  EXPECT_EQ(fault_from_environment()->kind, Fault::Kind::none);
}

TEST(Fault, ReadsRankIterationAndKind) {
  const FaultVariable variable("rank=2,iteration=5,kind=kill");
  const Fault fault = fault_from_environment().value();
  EXPECT_EQ(fault.kind, Fault::Kind::kill);
  EXPECT_EQ(fault.rank, 2);
  EXPECT_EQ(fault.iteration, 5);
}

TEST(Fault, ThrowsByDefault) {
  const FaultVariable variable("rank=1");
  EXPECT_EQ(fault_from_environment()->kind, Fault::Kind::error);
}

TEST(Fault, RefusesWhatItCannotRead) {
  for (const char* text : {"rank=x", "rank=-1", "kind=boom", "colour=red", "rank"}) {
    const FaultVariable variable(text);
    const auto fault = fault_from_environment();
    ASSERT_FALSE(fault.has_value()) << text;
    EXPECT_NE(fault.error().message.find("COMMLENS_FAULT"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace commlens::engine
