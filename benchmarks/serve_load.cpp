// Loads a server of `commlens serve` on this machine: streams of events that are read, one that is not, and
// scrapes of /metrics on connections of their own, at even times whether or not the ones before were
// answered. Prints how long scrapes took from the time at which they were due.
//   serve_load PORT STREAMS SCRAPES_A_SECOND SECONDS [PROCESS]     with the memory of the server's process
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "commlens/base/check.hpp"
#include "commlens/base/text.hpp"

namespace {

using namespace commlens;
using Clock = std::chrono::steady_clock;

struct Load {
  std::int64_t port = 0;
  std::int64_t streams = 0;
  std::int64_t scrapes_a_second = 0;
  std::int64_t seconds = 0;
};

struct Connection {
  bool is_stream = false;
  Clock::time_point due;
  std::int64_t bytes = 0;
  std::int64_t events = 0;  // heard, of a stream
  std::string head;         // of a scrape, until its length is known
  std::int64_t wanted = -1;
};

/// A connection that has asked for a page; loopback connects at once.
int asked(std::int64_t port, std::string_view page) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  COMMLENS_CHECK(connect(file, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0,
                 "the server listens");
  const std::string text = fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", page);
  COMMLENS_CHECK(send(file, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text),
                 "a short request fits");
  return file;
}

class Clients {
 public:
  explicit Clients(const Load& load) : load_(load), poll_(epoll_create1(EPOLL_CLOEXEC)) {}

  void run() {
    if (load_.streams > 0) {
      silent_ = asked(load_.port, "/events");
    }
    for (std::int64_t stream = 0; stream < load_.streams; ++stream) {
      add("/events", true, Clock::now());
    }
    const Clock::time_point began = Clock::now();
    const auto end = began + std::chrono::seconds(load_.seconds);
    std::int64_t sent = 0;
    for (auto before = began, now = began; now < end; before = std::exchange(now, Clock::now())) {
      longest_pause_ = std::max<Clock::duration>(longest_pause_, now - before);
      const auto due = began + std::chrono::nanoseconds(1'000'000'000 * sent /
                                                        std::max<std::int64_t>(load_.scrapes_a_second, 1));
      if (load_.scrapes_a_second > 0 && Clock::now() >= due) {
        add("/metrics", false, due);
        ++sent;
        continue;
      }
      look(1);
    }
    const auto patience = Clock::now() + std::chrono::seconds(10);
    while (load_.streams == 0 && !open_.empty() && Clock::now() < patience) {
      look(1);
    }
    unanswered_ = load_.streams == 0 ? std::ssize(open_) : 0;
  }

  void print_scrapes() {
    std::sort(taken_ms_.begin(), taken_ms_.end());
    const auto at = [&](double share) {
      const double place = share * static_cast<double>(taken_ms_.size() - 1);
      return taken_ms_.empty() ? 0.0 : taken_ms_[static_cast<std::size_t>(place)];
    };
    constexpr double million = 1e6;
    constexpr double most = 0.99;
    fmt::print(
        "scrapes: {} answered, {} not; {:.2f} MB each; p50 {:.1f} ms, p99 {:.1f} ms, longest {:.1f} ms\n",
        taken_ms_.size(), wrong_ + unanswered_, static_cast<double>(scrape_bytes_) / million, at(0.5),
        at(most), at(1));
    fmt::print("longest pause of the client itself: {:.1f} ms\n",
               std::chrono::duration<double, std::milli>(longest_pause_).count());
  }

  void print_streams() {
    std::int64_t fewest = open_.empty() ? 0 : INT64_MAX;
    std::int64_t bytes = 0;
    for (const auto& [file, connection] : open_) {
      fewest = std::min(fewest, connection.events);
      bytes += connection.bytes;
    }
    constexpr double million = 1e6;
    fmt::print("streams: {} open, {} dropped; {:.1f} MB/s together; at least {} events each\n", open_.size(),
               dropped_, static_cast<double>(bytes) / million / static_cast<double>(load_.seconds), fewest);
    fmt::print("the client that does not read: {}\n", was_silent_dropped() ? "dropped" : "kept");
  }

 private:
  void add(std::string_view page, bool is_stream, Clock::time_point due) {
    const int file = asked(load_.port, page);
    Connection& connection = open_[file];
    connection = {};
    connection.is_stream = is_stream;
    connection.due = due;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = file;
    COMMLENS_CHECK(epoll_ctl(poll_, EPOLL_CTL_ADD, file, &event) == 0, "a new connection");
  }

  void look(int milliseconds) {
    std::array<epoll_event, 64> events{};
    const int count = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), milliseconds);
    for (int event = 0; event < count; ++event) {
      hear(events[static_cast<std::size_t>(event)].data.fd);
    }
  }

  void hear(int file) {
    Connection& connection = open_.at(file);
    const ssize_t count = recv(file, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) {
      return;
    }
    if (count <= 0) {
      (connection.is_stream ? dropped_ : wrong_) += 1;
      forget(file);
      return;
    }
    const std::string_view text(buffer_.data(), static_cast<std::size_t>(count));
    connection.bytes += count;
    if (connection.is_stream) {
      constexpr std::string_view begin = "event: ";
      for (const char* at = text.data(); at != nullptr;) {
        at = static_cast<const char*>(memmem(at, text.data() + text.size() - at, begin.data(), begin.size()));
        connection.events += at == nullptr ? 0 : 1;
        at = at == nullptr ? at : at + 1;
      }
    } else {
      hear_scrape(file, connection, text);
    }
  }

  void hear_scrape(int file, Connection& connection, std::string_view text) {
    if (connection.wanted < 0) {
      connection.head += text;
      const std::size_t end = connection.head.find("\r\n\r\n");
      const std::size_t length = connection.head.find("Content-Length: ");
      if (end == std::string::npos || length > end) {
        return;
      }
      constexpr std::size_t name = 16;
      connection.wanted =
          std::stoll(connection.head.substr(length + name)) + static_cast<std::int64_t>(end) + 4;
    }
    if (connection.bytes >= connection.wanted) {
      taken_ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - connection.due).count());
      scrape_bytes_ = connection.bytes;
      forget(file);
    }
  }

  void forget(int file) {
    close(file);
    open_.erase(file);
  }

  /// Whether what the server has sent it has an end.
  bool was_silent_dropped() {
    ssize_t count = 1;
    while (count > 0) {
      count = recv(silent_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    }
    return count == 0 || errno != EAGAIN;
  }

  Load load_;
  int poll_;
  int silent_ = -1;
  Clock::duration longest_pause_{};  // what the machine adds to the answers
  std::map<int, Connection> open_;   // by file
  std::vector<double> taken_ms_;
  std::int64_t scrape_bytes_ = 0;
  std::int64_t wrong_ = 0;  // ended early
  std::int64_t unanswered_ = 0;
  std::int64_t dropped_ = 0;
  std::vector<char> buffer_ = std::vector<char>(1 << 18);
};

/// How long the threads of a process have been ready and had no processor.
double waited_s(const char* process) {
  double waited_ns = 0;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process))) {
    double ran = 0;
    double waited = 0;
    std::ifstream(thread.path() / "schedstat") >> ran >> waited;
    waited_ns += waited;
  }
  constexpr double billion = 1e9;
  return waited_ns / billion;
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int fewest = 5;
  if (count < fewest) {
    fmt::print(stderr, "serve_load PORT STREAMS SCRAPES_A_SECOND SECONDS [PROCESS]\n");
    return 2;
  }
  const auto number = [&](int place) { return parse_integer(arguments[place]).value_or(0); };
  const double waited = count > fewest ? waited_s(arguments[fewest]) : 0;
  Clients streams({number(1), number(2), 0, number(4)});
  Clients scrapes({number(1), 0, number(3), number(4)});
  std::thread listening([&] { streams.run(); });
  scrapes.run();
  listening.join();
  scrapes.print_scrapes();
  streams.print_streams();
  if (count > fewest) {
    fmt::print("the server waited for a processor: {:.2f} s\n", waited_s(arguments[fewest]) - waited);
    std::ifstream status(fmt::format("/proc/{}/status", arguments[fewest]));
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("VmRSS", 0) == 0 || line.rfind("VmHWM", 0) == 0) {
        fmt::print("{}\n", line);
      }
    }
  }
  return 0;
}
