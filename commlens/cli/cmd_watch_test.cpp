#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "commlens/app/watch.hpp"
#include "commlens/base/table.hpp"
#include "commlens/cli/duration_flag.hpp"
#include "commlens/cli/test_support.hpp"
#include "commlens/trace/rank_process.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

using nlohmann::json;
using test_support::content_of;
using test_support::Outcome;
using test_support::run_with;
using test_support::ScratchDirectory;

class CommandWatch : public testing::Test {
 protected:
  std::string path(const std::string& name = "t") const { return (directory_ / name).string(); }

  /// A recording of two ranks, by this process; rank 1 does not take part in the second of two calls where
  /// `is_stuck`.
  void start(bool is_stuck, const std::string& site = "heat.c:42") {
    create_recording(path(), {.producer = "test", .description = {}, .framework = {}, .ranks = 2});
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Recorder& recorder = *recorders_.emplace_back(std::make_unique<Recorder>(path(), Rank{rank}));
      RecordedCall call = {.kind = CommKind::other,
                           .dtype = DType::fp64,
                           .group = recorder.group({Rank{0}, Rank{1}}, Axis::world, CommunicatorId{1}),
                           .input = Elements{128},
                           .output = Elements{128},
                           .root = {},
                           .blocking = true,
                           .tag = {},
                           .name = recorder.name("MPI_Scan" + site)};
      recorder.finish(recorder.begin(call));
      if (rank == 0 && is_stuck) {
        open_.push_back(recorder.begin(call));
      }
    }
  }
  void end() {
    recorders_.clear();
    finish_recording(path());
  }
  static std::vector<json> lines_of(const std::string& text) {
    std::vector<json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      lines.push_back(json::parse(line));
    }
    return lines;
  }

  ScratchDirectory directory_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::vector<Recorder::Slot> open_;
};

TEST_F(CommandWatch, ShowsTheStateOfAJobThatHasEnded) {
  start(false);
  end();
  const Outcome outcome = run_with({"watch", path(), "--once", "--json"});
  EXPECT_EQ(outcome.code, ExitCode::done) << outcome.err;
  const json state = json::parse(outcome.out);
  EXPECT_EQ(state.at("schema"), "commlens.watch/1");
  EXPECT_EQ(state.at("job"), "ended");
  EXPECT_EQ(state.at("calls_all_ranks"), 2);
  EXPECT_EQ(state.at("totals").at("message_bytes_all_ranks"), 2048);
  EXPECT_EQ(state.at("hang"), nullptr);
  ASSERT_EQ(state.at("rank_rows").size(), 2U);
  EXPECT_EQ(state.at("rank_rows")[1].at("state"), "finished");
  EXPECT_EQ(state.at("rank_rows")[1].at("pid"), getpid());
  EXPECT_EQ(state.at("rows")[0].at("wire_bytes_all_ranks"), nullptr);  // of kind other: not known
}

TEST_F(CommandWatch, FiresForARunningJobThatIsStuck) {
  start(true);
  const Outcome outcome = run_with({"watch", path(), "--once", "--json", "--hang-after", "100ms"});
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  const json state = json::parse(outcome.out);
  EXPECT_EQ(state.at("job"), "running");
  ASSERT_EQ(state.at("alerts").size(), 1U) << outcome.out;
  EXPECT_EQ(state.at("alerts")[0].at("culprit_ranks"), json({1}));
  EXPECT_EQ(state.at("hang").at("verdict"), "missing");
  EXPECT_EQ(state.at("rank_rows")[0].at("state"), "stuck");
  const Outcome people = run_with({"watch", path(), "--once", "--hang-after", "0.1"});
  EXPECT_NE(people.out.find(fmt::format(
                "ALERT missing: 1 rank waits for rank 1 (host {}); nothing of this moved for", own_host())),
            std::string::npos)
      << people.out;
}

TEST_F(CommandWatch, WritesALineForEachEventAndGivesTheAlertToACommand) {
  start(true);
  std::thread ends([&] {
    while (!std::filesystem::exists(path("alert"))) {
      std::this_thread::yield();
    }
    recorders_[1]->finish(recorders_[1]->begin({.kind = CommKind::barrier, .tag = {}}));
    recorders_[0]->finish(open_[0]);
    recorders_.clear();
  });
  const std::string command = fmt::format("cat > {0}.part; mv {0}.part {0}", path("alert"));
  const Outcome outcome = run_with(
      {"watch", path(), "--until-end", "--interval", "100ms", "--hang-after", "0", "--on-alert", command});
  ends.join();
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  const std::string& lines = outcome.out;
  EXPECT_NE(lines.find(fmt::format("rank 0 joined: host ")), std::string::npos) << lines;
  EXPECT_NE(lines.find("alert hang-1: missing: 1 rank waits for rank 1"), std::string::npos) << lines;
  EXPECT_NE(lines.find("alert hang-1 is over"), std::string::npos) << lines;
  EXPECT_NE(lines.find("the job has ended"), std::string::npos) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5) << lines;
  const json alert = json::parse(content_of(path("alert")));
  EXPECT_EQ(alert.at("event"), "alert");
  EXPECT_EQ(alert.at("alert").at("id"), "hang-1");
}

// As `hang`, and in this order: the job was over before the follower began.
TEST_F(CommandWatch, SaysWhyAJobThatHasStoppedDidNotGoOn) {
  start(true);
  std::filesystem::create_directory(path("copy"));
  for (const auto& entry : std::filesystem::directory_iterator(path())) {
    const std::string text = content_of(entry.path());
    std::ofstream(path("copy") + "/" + entry.path().filename().string(), std::ios::binary)
        << std::regex_replace(text, std::regex(R"re("start_ticks": ?\d+)re"), R"("start_ticks":1)");
  }
  const Outcome outcome =
      run_with({"watch", path("copy"), "--until-end", "--on-alert", fmt::format("cat > {}", path("alert"))});
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  const std::size_t alert = outcome.out.find("alert hang-1: missing: 1 rank waits for rank 1");
  const std::size_t end = outcome.out.find("the job was stopped before all ranks ended");
  ASSERT_NE(alert, std::string::npos) << outcome.out;
  ASSERT_NE(end, std::string::npos) << outcome.out;
  EXPECT_LT(alert, end);
  EXPECT_EQ(json::parse(content_of(path("alert"))).at("alert").at("culprit_ranks"), json({1}));
}

TEST_F(CommandWatch, SaysThatItWaitsAndWhyItCannotRead) {
  std::filesystem::create_directory(path());
  std::ofstream(path() + "/manifest.json") << "{";
  std::thread makes([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::filesystem::remove_all(path());
    start(false);
    end();
  });
  const Outcome outcome = run_with({"watch", path(), "--until-end", "--interval", "100ms"});
  makes.join();
  EXPECT_EQ(outcome.out.find("waits for a recording in " + path() + "\ncannot be read now: "), 0U)
      << outcome.out;
  EXPECT_NE(outcome.out.find("the job has ended"), std::string::npos) << outcome.out;
}

TEST_F(CommandWatch, SaysThatASecondRecordingHasEndedToo) {
  start(false);
  end();
  std::filesystem::rename(path(), path("first"));
  start(false);
  end();
  std::filesystem::rename(path(), path("second"));
  std::filesystem::rename(path("first"), path());
  std::vector<WatchEventKind> kinds;
  int polls = 0;
  WatchRequest request;
  request.directory = path();
  request.interval = std::chrono::milliseconds(1);
  request.polled = [&](const JobView&, std::span<const WatchEvent> events) {
    for (const WatchEvent& event : events) {
      kinds.push_back(event.kind);
    }
    if (++polls == 1) {
      std::filesystem::rename(path(), path("first"));
      std::filesystem::rename(path("second"), path());
    }
  };
  request.stop_requested = [&] { return polls == 3; };
  ASSERT_TRUE(watch(request));
  using enum WatchEventKind;
  EXPECT_EQ(kinds, (std::vector{rank_joined, rank_joined, ended, replaced, rank_joined, rank_joined, ended}));
}

TEST(WatchText, HasAHeadAsWideAsTheTerminal) {
  JobView view;
  view.generation = 1;
  view.name = std::string(30, 'n');
  view.job_id = "1234567";
  view.error = "manifest.json: damaged";
  for (const bool colour : {false, true}) {
    const std::string text = watch_text(view, {.rank = {}, .style = {.width = 40, .colour = colour}});
    EXPECT_EQ(display_width(text.substr(0, text.find('\n'))), 40U) << text;
    EXPECT_NE(text.find("cannot be read now: manifest.json: damaged\n"), std::string::npos);
  }
}

TEST_F(CommandWatch, ShowsNoControlCharactersOfATrace) {
  start(true, "\033[2J\r\u202e");
  const Outcome outcome = run_with({"watch", path(), "--once", "--hang-after", "0"});
  EXPECT_EQ(outcome.code, ExitCode::differs) << outcome.err;
  EXPECT_EQ(outcome.out.find_first_of("\033\r"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("\u202e"), std::string::npos) << outcome.out;
  const Outcome hang = run_with({"hang", path(), "--unchanged-for", "0"});
  EXPECT_EQ(hang.out.find_first_of("\033\r"), std::string::npos) << hang.out;
}

TEST_F(CommandWatch, RefusesWhatCannotBeFollowed) {
  EXPECT_EQ(run_with({"watch", path("none"), "--once"}).code, ExitCode::bad_input);
  const std::string file = directory_.write("file", "text");
  EXPECT_EQ(run_with({"watch", file}).code, ExitCode::bad_input);
  write_trace(Trace(), path("written"));
  const Outcome outcome = run_with({"watch", path("written"), "--once"});
  EXPECT_EQ(outcome.code, ExitCode::bad_input);
  start(false);
  EXPECT_EQ(run_with({"watch", path(), "--once", "--hang-after", "soon"}).code, ExitCode::bad_input);
  EXPECT_EQ(run_with({"watch", path(), "--once", "--interval", "1ms"}).code, ExitCode::bad_input);
  EXPECT_EQ(run_with({"watch", path(), "--once", "--sort", "size"}).code, ExitCode::bad_input);
}

// A folder that appears later would be waited for.
TEST_F(CommandWatch, SaysThatAnAddressWasMeant) {
  for (const auto& [place, message] :
       {std::pair("localhost:9464",
                  "localhost:9464: no directory, and no address of a serve; write http://localhost:9464/\n"),
        std::pair("n17.example.org:9464/", "write http://n17.example.org:9464/\n"),
        std::pair("[::1]:9464", "write http://[::1]:9464/\n"),
        std::pair("http//n17:9464/", "no directory, and no address of a serve; write http://HOST:PORT/\n"),
        std::pair("HTTPS//n17", "write http://HOST:PORT/\n"),
        std::pair("http:/n17", "no address of a serve; write http://HOST:PORT/")}) {
    for (const char* const verb : {"watch", "serve", "hang"}) {
      const Outcome outcome = run_with({verb, place});
      EXPECT_EQ(outcome.code, ExitCode::bad_input) << verb << " " << place;
      EXPECT_NE(outcome.err.find(message), std::string::npos) << verb << " " << outcome.err;
    }
  }
}

TEST_F(CommandWatch, FollowsAFolderWhoseNameLooksLikeAnAddress) {
  start(false);
  end();
  std::filesystem::rename(path(), path("run:1"));
  EXPECT_EQ(run_with({"watch", path("run:1"), "--once"}).code, ExitCode::done);
}

// Before there is a job, which these would wait for.
TEST_F(CommandWatch, RefusesAtOnceAPredictionThatNoJobCanFit) {
  for (const char* const verb : {"watch", "serve"}) {
    const Outcome outcome =
        run_with({verb, path(), "--predict", "19M", "--framework", "commlens", "--heads", "8", "--tp", "3"});
    EXPECT_EQ(outcome.code, ExitCode::bad_input) << verb;
    EXPECT_NE(outcome.err.find("--predict 19M: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("heads"), std::string::npos) << outcome.err;
  }
}

TEST_F(CommandWatch, SaysThatTheCommandForAlertsFailed) {
  start(true);
  const Outcome outcome = run_with({"watch", path(), "--once", "--hang-after", "0", "--on-alert", "exit 7"});
  EXPECT_EQ(outcome.code, ExitCode::differs);
  EXPECT_NE(outcome.err.find("the command for alerts failed: its exit status is 7\n"), std::string::npos)
      << outcome.err;
}

/// A view of ranks for the order of their table.
JobView view_of_ranks() {
  JobView view;
  view.generation = 1;
  view.window = std::chrono::seconds(2);
  for (const double late : {0.1, 0.9, 0.5}) {
    LiveRank& rank = view.ranks.emplace_back();
    rank.rank = Rank{std::ssize(view.ranks) - 1};
    rank.state = LiveRankState::computing;
    rank.late_score = late;
    rank.recent.message = Bytes{1000 * std::ssize(view.ranks)};
  }
  return view;
}

std::vector<std::int64_t> shown_ranks(const WatchShow& show) {
  std::vector<std::int64_t> ranks;
  const json state = json::parse(watch_json(view_of_ranks(), show, false));
  for (const json& row : state.at("rank_rows")) {
    ranks.push_back(row.at("rank"));
  }
  return ranks;
}

TEST(WatchTables, SortRanksAndShowOne) {
  using Ranks = std::vector<std::int64_t>;
  EXPECT_EQ(shown_ranks({}), (Ranks{0, 1, 2}));
  EXPECT_EQ(shown_ranks({.rank = {}, .sort = "late"}), (Ranks{1, 2, 0}));
  EXPECT_EQ(shown_ranks({.rank = {}, .sort = "rate"}), (Ranks{2, 1, 0}));
  EXPECT_EQ(shown_ranks({.rank = Rank{2}, .sort = "rank"}), Ranks{2});
  const json state = json::parse(watch_json(view_of_ranks(), {}, false));
  EXPECT_EQ(state.at("rank_rows")[0].at("message_bytes_per_s_per_rank"), 500.0);  // 1000 in 2 s
}

TEST(WatchTables, MarkTheCulpritForPeople) {
  JobView view = view_of_ranks();
  view.alerts.push_back({.id = "hang-1", .kind = "volume", .text = "too much", .culprits = {Rank{1}}});
  const std::string text = watch_text(view, {});
  EXPECT_NE(text.find("1  computing, culprit"), std::string::npos) << text;
  EXPECT_EQ(text.find("2  computing, culprit"), std::string::npos) << text;
  EXPECT_NE(text.find("ALERT too much"), std::string::npos) << text;
  EXPECT_EQ(json::parse(watch_json(view, {}, false)).at("rank_rows")[1].at("state"), "computing");
}

TEST(WatchTables, SayThatAProcessIsStopped) {
  JobView view = view_of_ranks();
  view.ranks[1].process_state = ProcessState::stopped;
  view.ranks[2].process_state = ProcessState::stopped;
  view.ranks[2].state = LiveRankState::stuck;
  const std::string text = watch_text(view, {.rank = {}, .sort = "state", .style = {}});
  EXPECT_NE(text.find("1  stopped "), std::string::npos) << text;
  EXPECT_NE(text.find("2  stuck "), std::string::npos) << text;
  EXPECT_LT(text.find("1  stopped"), text.find("0  computing")) << text;
  const json row = json::parse(watch_json(view, {}, false)).at("rank_rows")[1];
  EXPECT_EQ(row.at("state"), "computing");
  EXPECT_EQ(row.at("process"), "stopped");
}

TEST(WatchTables, SayThatThereIsNoSuchRank) {
  const std::string text = watch_text(view_of_ranks(), {.rank = Rank{3}, .sort = "rank", .style = {}});
  EXPECT_NE(text.find("rank 3 is not in this recording, whose ranks are 0 to 2"), std::string::npos) << text;
}

TEST(DurationFlag, TakesUnits) {
  const auto milliseconds = [](const std::string& text) {
    const auto duration = duration_from(text, "--x");
    return duration ? duration->count() : -1;
  };
  EXPECT_EQ(milliseconds("5"), 5000);
  EXPECT_EQ(milliseconds("1.5s"), 1500);
  EXPECT_EQ(milliseconds("100ms"), 100);
  EXPECT_EQ(milliseconds("2m"), 120'000);
  EXPECT_EQ(milliseconds("24h"), 86'400'000);
  EXPECT_EQ(milliseconds("10min"), 600'000);
  for (const char* const wrong : {"", "s", "-1s", "25h", "1x", "nan", "inf"}) {
    EXPECT_EQ(milliseconds(wrong), -1) << wrong;
  }
}

}  // namespace
}  // namespace commlens
