// Commands of a real shell; the time that they have is the test's.
#include "commlens/app/alert_command.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using std::chrono::steady_clock;

class AlertCommands : public testing::Test {
 protected:
  Events events() {
    Events events;
    events.warning = [this](const std::string& warning) { warnings_.push_back(warning); };
    return events;
  }
  void run(const std::string& text) {
    AlertCommand command(text, events());
    ASSERT_EQ(command.start("{}\n"), "");
    wait_for(command);
    EXPECT_FALSE(command.is_busy());
  }
  static void wait_for(AlertCommand& command) {
    for (int tries = 0; tries < 1000 && command.is_busy(); ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      command.look();
    }
  }
  static steady_clock::time_point after_its_time() {
    return steady_clock::now() + AlertCommand::k_limit + std::chrono::seconds(1);
  }

  const test_support::ScratchDirectory scratch_;
  std::vector<std::string> warnings_;
};

TEST_F(AlertCommands, GetTheAlertAndSayNothingWhereAllIsWell) {
  run(fmt::format("cat > {}", scratch_.path("heard")));
  std::string heard(16, '\0');
  const int file = open(scratch_.path("heard").c_str(), O_RDONLY | O_CLOEXEC);
  heard.resize(static_cast<std::size_t>(std::max<ssize_t>(read(file, heard.data(), heard.size()), 0)));
  close(file);
  EXPECT_EQ(heard, "{}\n");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(AlertCommands, ThatFailAreWarnedOf) {
  run("exit 3");
  run("kill -KILL $$");
  EXPECT_EQ(warnings_,
            (std::vector<std::string>{"the command for alerts failed: its exit status is 3",
                                      "the command for alerts failed: it was ended by signal 9 (Killed)"}));
}

TEST_F(AlertCommands, AreEndedAfterTheirTime) {
  AlertCommand command("sleep 1000", events());
  ASSERT_EQ(command.start("{}\n"), "");
  command.look();
  EXPECT_TRUE(command.is_busy());
  command.look(after_its_time());
  EXPECT_FALSE(command.is_busy());
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"the command for alerts was ended: it ran for more than 30 s"});
}

// The read end of a pipe is at its end once nobody has it open for writing.
TEST_F(AlertCommands, LeaveNothingInTheBackgroundAfterTheirTime) {
  const std::string pipe = scratch_.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  AlertCommand command(fmt::format("sleep 1000 >{} &", pipe), events());
  ASSERT_EQ(command.start("{}\n"), "");
  const int reader = open(pipe.c_str(), O_RDONLY | O_CLOEXEC);  // comes back when `sleep` has it
  ASSERT_GE(reader, 0);
  for (int tries = 0; tries < 10; ++tries) {  // the shell ends meanwhile, or not: both must do
    command.look();
  }
  EXPECT_TRUE(command.is_busy());
  pollfd end{.fd = reader, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&end, 1, 0), 0);
  command.look(after_its_time());
  EXPECT_FALSE(command.is_busy());
  constexpr int longest_ms = 10'000;
  EXPECT_EQ(poll(&end, 1, longest_ms), 1);
  EXPECT_NE(end.revents & POLLHUP, 0);
  close(reader);
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(AlertCommands, EndWithTheWatch) {
  const std::string pipe = scratch_.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  pollfd end{.fd = -1, .events = POLLIN, .revents = 0};
  {
    AlertCommand command(fmt::format("sleep 1000 >{} & wait", pipe), events());
    ASSERT_EQ(command.start("{}\n"), "");
    end.fd = open(pipe.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(end.fd, 0);
  }
  constexpr int longest_ms = 10'000;
  EXPECT_EQ(poll(&end, 1, longest_ms), 1);
  close(end.fd);
}

}  // namespace
}  // namespace commlens
