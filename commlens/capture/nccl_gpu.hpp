#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace commlens::capture {

struct GpuApi;

/// When work on the GPU began and ended, by events that are recorded before and after it in its stream.
/// Through CUDA's driver or HIP, whichever the program has loaded; never waits, and is safe while a graph is
/// captured.
class GpuTimes {
 public:
  /// Null when neither is loaded at the first call.
  static GpuTimes* of_process() noexcept;

  /// A moment of the GPU's that the host knows too.
  struct Anchor {
    void* event = nullptr;
    std::int64_t host_ns = 0;
  };
  /// Some work in a stream.
  struct Span {
    void* place = nullptr;  // the context (CUDA) or device (HIP) of the events
    void* start = nullptr;
    void* end = nullptr;
    std::shared_ptr<Anchor> anchor;
  };
  struct Times {
    std::int64_t started_ns = 0;
    std::int64_t finished_ns = 0;
  };
  enum class State : std::uint8_t { running, done, lost };

  /// What comes next in `stream` belongs to the span. Nothing while the stream is captured, when too many
  /// spans are open, or when the GPU refuses. `device`: of the stream (-1: not known).
  std::shared_ptr<Span> open(void* stream, int device);
  /// … up to here. False when it is not known.
  bool close(Span& span, void* stream);
  /// How far the work is; `times` when it is done.
  State look(const Span& span, Times& times) const;
  /// The same from a thread in which no context is current; of work that runs when it began, 0: it has not.
  State look_apart(const Span& span, Times& times) const;

 private:
  explicit GpuTimes(std::unique_ptr<GpuApi> api);
  State look_here(const Span& span, Times& times) const;
  std::shared_ptr<Span> new_span(void* place);
  void* new_event(void* place);
  void give_back(const Span& span) noexcept;
  std::shared_ptr<Anchor> anchor(void* place);

  static constexpr std::size_t k_most_spans = 8192;
  static constexpr std::int64_t k_anchor_lasts_ns = 1'000'000'000;

  std::unique_ptr<GpuApi> api_;
  std::mutex mutex_;
  std::map<void*, std::vector<void*>> free_events_;  // by place
  std::map<void*, void*> anchor_streams_;
  std::map<void*, std::shared_ptr<Anchor>> anchors_;
  std::size_t spans_ = 0;
};

}  // namespace commlens::capture
