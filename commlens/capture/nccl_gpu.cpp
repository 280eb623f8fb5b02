#include "commlens/capture/nccl_gpu.hpp"

#include <array>
#include <string_view>

#include "commlens/capture/nccl_symbols.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens::capture {

/// The functions of CUDA's driver, or of HIP. All return 0 or an error code. Source: cuda.h of CUDA 10 to 13,
/// hip_runtime_api.h of ROCm 5 and 6. The driver's, not the runtime's: a query of an event that is not ready
/// would be the runtime's "last error", which programs ask for.
struct GpuApi {
  bool is_hip = false;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_query)(void* event) = nullptr;
  int (*event_elapsed)(float* milliseconds, void* start, void* end) = nullptr;
  int (*stream_is_capturing)(void* stream, int* status) = nullptr;
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*exchange_capture_mode)(int* mode) = nullptr;
  // CUDA
  int (*stream_context)(void* stream, void** context) = nullptr;
  int (*push_context)(void* context) = nullptr;
  int (*pop_context)(void** context) = nullptr;
  // HIP
  int (*get_device)(int* device) = nullptr;
  int (*set_device)(int device) = nullptr;
  int (*last_error)() = nullptr;
  int (*peek_error)() = nullptr;
};

namespace {

constexpr unsigned k_stream_apart = 1;  // CU_STREAM_NON_BLOCKING, hipStreamNonBlocking
constexpr int k_capture_relaxed = 2;    // CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed
constexpr int k_gpu_not_ready = 600;    // CUDA_ERROR_NOT_READY, hipErrorNotReady
constexpr int k_not_capturing = 0;      // CU_STREAM_CAPTURE_STATUS_NONE

template <typename Function>
bool find(Function*& function, const char* name, std::string_view library) {
  const std::array<std::string_view, 1> libraries = {library};
  function = reinterpret_cast<Function*>(loaded_symbol(name, libraries));
  return function != nullptr;
}

std::unique_ptr<GpuApi> cuda_api() {
  constexpr std::string_view cuda = "libcuda.so";
  auto api = std::make_unique<GpuApi>();
  const bool has_all =
      find(api->event_create, "cuEventCreate", cuda) && find(api->event_record, "cuEventRecord", cuda) &&
      find(api->event_query, "cuEventQuery", cuda) && find(api->event_elapsed, "cuEventElapsedTime", cuda) &&
      find(api->stream_is_capturing, "cuStreamIsCapturing", cuda) &&
      find(api->stream_create, "cuStreamCreate", cuda) &&
      find(api->exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", cuda) &&
      find(api->stream_context, "cuStreamGetCtx", cuda) &&
      find(api->push_context, "cuCtxPushCurrent_v2", cuda) &&
      find(api->pop_context, "cuCtxPopCurrent_v2", cuda);
  return has_all ? std::move(api) : nullptr;
}

std::unique_ptr<GpuApi> hip_api() {
  constexpr std::string_view hip = "libamdhip64.so";
  auto api = std::make_unique<GpuApi>();
  api->is_hip = true;
  const bool has_all =
      find(api->event_create, "hipEventCreateWithFlags", hip) &&
      find(api->event_record, "hipEventRecord", hip) && find(api->event_query, "hipEventQuery", hip) &&
      find(api->event_elapsed, "hipEventElapsedTime", hip) &&
      find(api->stream_is_capturing, "hipStreamIsCapturing", hip) &&
      find(api->stream_create, "hipStreamCreateWithFlags", hip) &&
      find(api->exchange_capture_mode, "hipThreadExchangeStreamCaptureMode", hip) &&
      find(api->get_device, "hipGetDevice", hip) && find(api->set_device, "hipSetDevice", hip) &&
      find(api->last_error, "hipGetLastError", hip) && find(api->peek_error, "hipPeekAtLastError", hip);
  return has_all ? std::move(api) : nullptr;
}

/// While it lives, this thread's calls to the GPU do not spoil a capture, and errors of ours are not left
/// after the program's last one.
class Harmless {
 public:
  explicit Harmless(const GpuApi& api) : api_(api) {
    has_mode_ = api_.exchange_capture_mode(&mode_) == 0;
    had_error_ = api_.is_hip && api_.peek_error() != 0;
  }
  /// False: captures of this or other threads might be spoilt.
  bool is_sure() const { return has_mode_; }
  ~Harmless() {
    if (has_mode_) {
      api_.exchange_capture_mode(&mode_);
    }
    if (api_.is_hip && !had_error_) {
      api_.last_error();
    }
  }
  Harmless(const Harmless&) = delete;
  Harmless& operator=(const Harmless&) = delete;

 private:
  const GpuApi& api_;
  int mode_ = k_capture_relaxed;
  bool has_mode_ = false;
  bool had_error_ = false;
};

/// The context or device of a stream, as this thread's while it lives.
class AtPlace {
 public:
  AtPlace(const GpuApi& api, void* place) : api_(api) {
    if (!api_.is_hip) {
      is_there_ = api_.push_context(place) == 0;
      return;
    }
    const int device = static_cast<int>(reinterpret_cast<std::intptr_t>(place)) - 1;
    is_there_ = api_.get_device(&before_) == 0 && (before_ == device || api_.set_device(device) == 0);
    must_return_ = is_there_ && before_ != device;
  }
  ~AtPlace() {
    if (!api_.is_hip && is_there_) {
      void* ours = nullptr;
      api_.pop_context(&ours);
    }
    if (must_return_) {
      api_.set_device(before_);
    }
  }
  AtPlace(const AtPlace&) = delete;
  AtPlace& operator=(const AtPlace&) = delete;
  bool is_there() const { return is_there_; }

 private:
  const GpuApi& api_;
  int before_ = -1;
  bool is_there_ = false;
  bool must_return_ = false;
};

/// The context of a CUDA stream; for HIP its device plus 1. Null when it cannot be found out.
void* place_of(const GpuApi& api, void* stream, int device) {
  if (!api.is_hip) {
    void* context = nullptr;
    return api.stream_context(stream, &context) == 0 ? context : nullptr;
  }
  int number = device;
  if (number < 0 && api.get_device(&number) != 0) {
    return nullptr;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a name for a place, never followed
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(number) + 1);
}

}  // namespace

GpuTimes::GpuTimes(std::unique_ptr<GpuApi> api) : api_(std::move(api)) {}

GpuTimes* GpuTimes::of_process() noexcept {
  static GpuTimes* const only = []() -> GpuTimes* {
    try {
      std::unique_ptr<GpuApi> api = cuda_api();
      if (api == nullptr) {
        api = hip_api();
      }
      return api == nullptr ? nullptr : new GpuTimes(std::move(api));
    } catch (const std::exception&) {
      return nullptr;
    }
  }();
  return only;
}

void* GpuTimes::new_event(void* place) {
  std::vector<void*>& free = free_events_[place];
  void* event = nullptr;
  if (!free.empty()) {
    event = free.back();
    free.pop_back();
    return event;
  }
  return api_->event_create(&event, 0) == 0 ? event : nullptr;
}

/// An empty stream of our own carries an event out at once, so the host's clock gives its time to within some
/// microseconds. Elapsed times are floats: an anchor of a second ago resolves 60 ns, one of an hour 0.25
/// ms.
std::shared_ptr<GpuTimes::Anchor> GpuTimes::anchor(void* place) {
  const std::int64_t now = Clock::of_process().now_ns();
  std::shared_ptr<Anchor>& known = anchors_[place];
  if (known != nullptr && now - known->host_ns < k_anchor_lasts_ns) {
    return known;
  }
  void*& stream = anchor_streams_[place];
  if (stream == nullptr && api_->stream_create(&stream, k_stream_apart) != 0) {
    stream = nullptr;
    return nullptr;
  }
  void* const event = new_event(place);
  if (event == nullptr) {
    return nullptr;
  }
  known =
      std::shared_ptr<Anchor>(new Anchor{event, Clock::of_process().now_ns()}, [this, place](Anchor* old) {
        free_events_[place].push_back(old->event);  // the last span that holds it is given back under mutex_
        delete old;
      });
  return api_->event_record(event, stream) == 0 ? known : nullptr;
}

std::shared_ptr<GpuTimes::Span> GpuTimes::open(void* stream, int device) {
  const Harmless harmless(*api_);
  int capturing = k_not_capturing;
  if (api_->stream_is_capturing(stream, &capturing) != 0 || capturing != k_not_capturing) {
    return nullptr;
  }
  void* const place = place_of(*api_, stream, device);
  if (place == nullptr) {
    return nullptr;
  }
  const AtPlace at_place(*api_, place);
  const std::shared_ptr<Span> span = at_place.is_there() ? new_span(place) : nullptr;
  const bool is_whole =
      span != nullptr && span->anchor != nullptr && span->start != nullptr && span->end != nullptr;
  return is_whole && api_->event_record(span->start, stream) == 0 ? span : nullptr;
}

std::shared_ptr<GpuTimes::Span> GpuTimes::new_span(void* place) {
  const std::lock_guard guard(mutex_);
  if (spans_ >= k_most_spans) {
    return nullptr;
  }
  auto made = std::make_unique<Span>();
  made->place = place;
  made->anchor = anchor(place);
  made->start = new_event(place);
  made->end = new_event(place);
  ++spans_;
  return {made.release(), [this](Span* old) {
            const std::lock_guard again(mutex_);
            give_back(*old);
            delete old;
          }};
}

void GpuTimes::give_back(const Span& span) noexcept {
  --spans_;
  for (void* const event : {span.start, span.end}) {
    if (event != nullptr) {
      free_events_[span.place].push_back(event);
    }
  }
}

bool GpuTimes::close(Span& span, void* stream) {
  const Harmless harmless(*api_);
  const AtPlace at_place(*api_, span.place);
  return at_place.is_there() && api_->event_record(span.end, stream) == 0;
}

namespace {

std::int64_t ns_of(float milliseconds) {
  constexpr double ns_per_ms = 1e6;
  return static_cast<std::int64_t>(static_cast<double>(milliseconds) * ns_per_ms);
}

}  // namespace

GpuTimes::State GpuTimes::look(const Span& span, Times& times) const {
  const Harmless harmless(*api_);
  return look_here(span, times);
}

GpuTimes::State GpuTimes::look_here(const Span& span, Times& times) const {
  const int ended = api_->event_query(span.end);
  if (ended == k_gpu_not_ready) {
    return State::running;
  }
  float to_start = 0;
  float to_end = 0;
  const int anchored = ended == 0 ? api_->event_elapsed(&to_start, span.anchor->event, span.start) : ended;
  if (anchored == k_gpu_not_ready) {
    return State::running;
  }
  if (anchored != 0 || api_->event_elapsed(&to_end, span.start, span.end) != 0) {
    return State::lost;
  }
  times.started_ns = span.anchor->host_ns + ns_of(to_start);
  times.finished_ns = times.started_ns + ns_of(to_end);
  return State::done;
}

GpuTimes::State GpuTimes::look_apart(const Span& span, Times& times) const {
  const Harmless harmless(*api_);
  if (!harmless.is_sure()) {
    return State::running;
  }
  const AtPlace at_place(*api_, span.place);
  if (!at_place.is_there()) {
    return State::lost;
  }
  const State state = look_here(span, times);
  float to_start = 0;
  const bool has_begun = state == State::running && api_->event_query(span.start) == 0 &&
                         api_->event_elapsed(&to_start, span.anchor->event, span.start) == 0;
  if (has_begun) {
    times.started_ns = span.anchor->host_ns + ns_of(to_start);
  }
  return state;
}

}  // namespace commlens::capture
