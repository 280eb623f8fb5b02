#include "commlens/frameworks/torch/schedule_file.hpp"

#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/test_support.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {
namespace {

class ScheduleFiles : public testing::Test {
 protected:
  Result<ScheduleFile> read(const std::string& text) const {
    const auto path = directory_ / "order.csv";
    std::ofstream(path) << text;
    return read_schedule_file(path);
  }
  std::string error_of(const std::string& text) const {
    const Result<ScheduleFile> file = read(text);
    const std::string message = file ? "" : file.error().message;
    const std::size_t at = message.find("order.csv:");
    return at == std::string::npos ? message : message.substr(at + 10);
  }

 private:
  test_support::ScratchDirectory directory_;
};

std::string csv_of(const std::vector<RankActions>& ranks) {
  std::string text;
  for (const RankActions& actions : ranks) {
    for (const PipelineAction& each : actions) {
      const std::string_view letter = each.kind == PipelineAction::Kind::forward          ? "F"
                                      : each.kind == PipelineAction::Kind::backward       ? "B"
                                      : each.kind == PipelineAction::Kind::backward_input ? "I"
                                                                                          : "W";
      text += each.kind == PipelineAction::Kind::idle
                  ? ","
                  : fmt::format("{}{}{},", each.stage, letter, each.micro_batch);
    }
    text += "\n";
  }
  return text;
}

TEST_F(ScheduleFiles, HoldWhatTheLibrarysSchedulesCompute) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::interleaved_1f1b, PipelineSchedule::interleaved_zero_bubble,
        PipelineSchedule::zbv_zero_bubble}) {
    const PipelineShape shape{schedule, 2, 2, 4};
    const Result<ScheduleFile> file = read(csv_of(compute_actions(shape)));
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ(file->stages_per_rank, 2);
    EXPECT_EQ(file->micro_batches, 4);
    EXPECT_EQ(file->is_v_shaped, schedule == PipelineSchedule::zbv_zero_bubble);
    PipelineShape from_file{PipelineSchedule::from_file, 2, 2, 4};
    from_file.file = std::make_shared<const ScheduleFile>(*file);
    EXPECT_TRUE(check(from_file));
    EXPECT_EQ(runtime_actions(from_file, {}), runtime_actions(shape, {}));
    from_file.micro_batches = 8;
    EXPECT_FALSE(check(from_file));
  }
}

TEST_F(ScheduleFiles, OverlapTwoPasses) {
  const Result<ScheduleFile> file =
      read("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\r\n1F0,1B0, 1F1 ,1B1,1F2,1B2\n");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(file->ranks[0][2].is_paired);
  EXPECT_EQ(file->ranks[0][3], (PipelineAction{PipelineAction::Kind::backward, 0, 0, false}));
}

TEST_F(ScheduleFiles, AreRefusedWithTheLine) {
  EXPECT_EQ(error_of(""), "1: a schedule has 1 to 4096 rows, one for each rank");
  EXPECT_EQ(error_of("0F0,0B0\n1F0,1X0\n").substr(0, 31), "2: '1X0' is no pass of a stage ");
  EXPECT_EQ(error_of("0SEND_F0\n").substr(0, 15), "1: '0SEND_F0' i");
  EXPECT_EQ(error_of("0F0,1F0,0B0\n1B0\n"), "1: stage 1 is on two ranks");
  EXPECT_EQ(error_of("1F0,1B0\n0F0,0B0\n"), "1: the stages are neither in a loop over the ranks nor in a V");
  EXPECT_EQ(error_of("0B0,0F0\n"),
            "1: rank 0 waits for ever for what its pass of stage 0 and micro-batch 0 needs");
  EXPECT_EQ(error_of("0F0,0F0,0B0\n"), "1: a pass of stage 0 and micro-batch 0 is twice there");
  EXPECT_EQ(error_of("0F0,0I0\n"), "1: stage 0 needs one backward pass of micro-batch 0, whole or in halves");
  EXPECT_EQ(error_of("0F0,0F1,0B0\n"),
            "1: stage 0 needs one backward pass of micro-batch 1, whole or in halves");
  EXPECT_EQ(error_of("99999999999999999999F0\n").substr(0, 8), "1: '9999");
  EXPECT_EQ(error_of("0F0;\n").substr(0, 10), "1: '0F0;' ");
  EXPECT_FALSE(read_schedule_file("/no/such/file.csv"));
}

}  // namespace
}  // namespace commlens::pytorch
