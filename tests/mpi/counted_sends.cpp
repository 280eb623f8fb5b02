// To be preloaded below MPICH with the device ch4:ucx, which gives UCX one such call for each message between
// ranks, those of its collectives too. At its end, a process writes how many there were of each size,
// "rank bytes messages" a line, to the file COUNTED_SENDS.rank.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <dlfcn.h>

namespace {

using SendCall = void* (*)(void*, const void*, std::size_t, std::uint64_t, const void*);

class SendCounts {
 public:
  SendCounts() = default;
  SendCounts(const SendCounts&) = delete;
  SendCounts& operator=(const SendCounts&) = delete;
  ~SendCounts() {
    const char* const place = std::getenv("COUNTED_SENDS");
    const char* const rank = std::getenv("PMI_RANK");
    if (place == nullptr || rank == nullptr || messages_.empty()) {
      return;
    }
    if (std::FILE* const file = std::fopen((std::string(place) + "." + rank).c_str(), "w")) {
      for (const auto& [bytes, messages] : messages_) {
        std::fprintf(file, "%s %zu %ld\n", rank, bytes, messages);
      }
      std::fclose(file);
    }
  }

  void add(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    ++messages_[bytes];
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, long> messages_;  // by bytes
};

}  // namespace

extern "C" void* ucp_tag_send_nbx(void* endpoint, const void* buffer, std::size_t bytes, std::uint64_t tag,
                                  const void* parameters) {
  static SendCounts counts;
  static const auto send = reinterpret_cast<SendCall>(dlsym(RTLD_NEXT, "ucp_tag_send_nbx"));
  counts.add(bytes);
  return send(endpoint, buffer, bytes, tag, parameters);
}
