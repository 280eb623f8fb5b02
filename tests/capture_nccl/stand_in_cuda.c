/* Stands in for CUDA's driver, libcuda.so.1: streams with a clock each, which runs with the host's and is put
 * forward by work. An event is seen complete when it is asked for the second time. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct Event {
  int64_t at_ns;
  int is_recorded, asked;
};
static struct {
  void* stream;
  int64_t busy_until_ns;
} streams[64];

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
static int slot_of(void* stream) {
  int at = 0;
  while (streams[at].stream != stream && streams[at].stream != NULL) {
    ++at;
  }
  streams[at].stream = stream;
  return at;
}
static int64_t* clock_of(void* stream) {
  const int at = slot_of(stream);
  const int64_t now = now_ns() / 1000 * 1000; /* so that elapsed times are exact as floats */
  if (streams[at].busy_until_ns < now) {
    streams[at].busy_until_ns = now;
  }
  return &streams[at].busy_until_ns;
}
/* Begins where the stream was last, as if enqueuing took no time. */
void stand_in_gpu_work(void* stream, int64_t ns) { streams[slot_of(stream)].busy_until_ns += ns; }

/* NOLINTBEGIN(readability-identifier-naming): the names are CUDA's */
int cuEventCreate(struct Event** event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  return 0;
}
int cuEventRecord(struct Event* event, void* stream) {
  event->at_ns = *clock_of(stream);
  event->is_recorded = 1;
  event->asked = 0;
  return 0;
}
/* Behind work that never ends. */
static int is_far(const struct Event* event) { return event->at_ns - now_ns() > INT64_C(3600000000000); }
int cuEventQuery(struct Event* event) { return is_far(event) || event->asked++ == 0 ? 600 : 0; }
int cuEventElapsedTime(float* milliseconds, struct Event* start, struct Event* end) {
  if (!start->is_recorded || !end->is_recorded) {
    return 400;
  }
  if (is_far(start) || is_far(end)) {
    return 600;
  }
  *milliseconds = (float)((double)(end->at_ns - start->at_ns) / 1e6);
  return 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = stream == (void*)0x77;
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) {
  static char ours[8];
  (void)flags;
  *stream = ours;
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  static __thread int current;
  const int before = current;
  current = *mode;
  *mode = before;
  return 0;
}
static void* context = (void*)0xc0;
int cuStreamGetCtx(void* stream, void** of_stream) {
  (void)stream;
  *of_stream = context;
  return 0;
}
static __thread int pushed;
int cuCtxPushCurrent_v2(void* pushed_context) {
  ++pushed;
  return pushed_context == context ? 0 : 201;
}
int cuCtxPopCurrent_v2(void** popped) {
  *popped = context;
  --pushed;
  return 0;
}
int cuCtxGetDevice(int* device) {
  (void)device;
  return 201; /* CUDA_ERROR_INVALID_CONTEXT */
}
/* For the program: what a recorder must leave as it was. */
int stand_in_gpu_is_clean(void) {
  int mode = 0;
  cuThreadExchangeStreamCaptureMode(&mode);
  const int is_clean = mode == 0 && pushed == 0;
  cuThreadExchangeStreamCaptureMode(&mode);
  return is_clean;
}
/* NOLINTEND(readability-identifier-naming) */
