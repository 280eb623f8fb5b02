// delayed_link MICROSECONDS NAMESPACE ADDRESS NAMESPACE ADDRESS: joins two network namespaces (as of `ip
// netns`) by a link whose packets arrive that much later; addresses as 10.77.0.1/24. What `tc netem` does
// where the kernel has it. Prints "ready" and carries packets until it is killed.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

void require(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
  }
}

void enter_namespace(const std::string& name) {
  const std::string path = "/var/run/netns/" + name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0 && setns(file, CLONE_NEWNET) == 0, path);
  close(file);
}

void set_address(int control, ifreq& device, unsigned long request, in_addr address) {
  sockaddr_in socket_address{};
  socket_address.sin_family = AF_INET;
  socket_address.sin_addr = address;
  std::memcpy(&device.ifr_addr, &socket_address, sizeof socket_address);
  require(ioctl(control, request, &device) == 0, "setting an address");
}

/// One end of the link: a device link0 in the namespace, as a file of packets.
int made_end(const std::string& name, const std::string& address_and_prefix) {
  enter_namespace(name);
  const std::size_t slash = address_and_prefix.find('/');
  require(slash != std::string::npos, "an address is ADDRESS/PREFIX");
  in_addr address{};
  require(inet_pton(AF_INET, address_and_prefix.substr(0, slash).c_str(), &address) == 1, "address");
  const int prefix = std::stoi(address_and_prefix.substr(slash + 1));
  const in_addr mask{htonl(prefix == 0 ? 0U : ~0U << (32U - static_cast<unsigned>(prefix)))};

  const int file = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  require(file >= 0, "/dev/net/tun");
  ifreq device{};
  std::strncpy(device.ifr_name, "link0", IFNAMSIZ - 1);
  device.ifr_flags = IFF_TUN | IFF_NO_PI;
  require(ioctl(file, TUNSETIFF, &device) == 0, "making a device");
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  set_address(control, device, SIOCSIFADDR, address);
  set_address(control, device, SIOCSIFNETMASK, mask);
  device.ifr_flags = IFF_UP | IFF_RUNNING;
  require(ioctl(control, SIOCSIFFLAGS, &device) == 0, "starting a device");
  close(control);
  return file;
}

struct Packet {
  SteadyTime due;
  std::vector<char> bytes;
};

/// Packets from one end on their way to the other.
class Way {
 public:
  Way(int from, int to, std::chrono::microseconds delay) : from_(from), to_(to), delay_(delay) {}

  void take(SteadyTime now) {
    std::array<char, 65536> packet;
    for (ssize_t size = 0; (size = read(from_, packet.data(), packet.size())) > 0;) {
      under_way_.push_back({now + delay_, {packet.begin(), packet.begin() + size}});
    }
  }

  /// Delivers what is due; a packet that the other end does not take is lost, as on any link.
  void deliver(SteadyTime now) {
    while (!under_way_.empty() && under_way_.front().due <= now) {
      const std::vector<char>& bytes = under_way_.front().bytes;
      static_cast<void>(write(to_, bytes.data(), bytes.size()));
      under_way_.pop_front();
    }
  }

  /// Nanoseconds until the next one is due; a tenth of a second where there is none.
  std::int64_t until_due(SteadyTime now) const {
    constexpr std::chrono::nanoseconds k_idle = std::chrono::milliseconds(100);
    return under_way_.empty() ? k_idle.count()
                              : std::max<std::int64_t>(0, (under_way_.front().due - now).count());
  }

 private:
  int from_;
  int to_;
  std::chrono::microseconds delay_;
  std::deque<Packet> under_way_;
};

void carry(int left, int right, std::chrono::microseconds delay) {
  Way there(left, right, delay);
  Way back(right, left, delay);
  std::array<pollfd, 2> files{pollfd{left, POLLIN, 0}, pollfd{right, POLLIN, 0}};
  for (;;) {
    const SteadyTime before = std::chrono::steady_clock::now();
    const std::int64_t wait_ns = std::min(there.until_due(before), back.until_due(before));
    const timespec wait{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
    require(ppoll(files.data(), files.size(), &wait, nullptr) >= 0, "waiting for packets");
    const SteadyTime now = std::chrono::steady_clock::now();
    there.take(now);
    back.take(now);
    there.deliver(now);
    back.deliver(now);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 6) {
      throw std::runtime_error("usage: delayed_link MICROSECONDS NAMESPACE ADDRESS NAMESPACE ADDRESS");
    }
    const int left = made_end(argv[2], argv[3]);
    const int right = made_end(argv[4], argv[5]);
    std::puts("ready");
    std::fflush(stdout);
    carry(left, right, std::chrono::microseconds(std::atoll(argv[1])));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "delayed_link: %s\n", error.what());
    return 3;
  }
}
