// libcommlens-charts.so: the part of commlens that needs Duktape, loaded by SvgDrawer.
//
// Duktape leaves a function by longjmp where it fails. So whatever may fail runs inside duk_safe_call, in
// functions that own nothing.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include <duktape.h>

#include "commlens/base/check.hpp"
#include "commlens/base/result.hpp"
#include "commlens/report/chart_engine.hpp"
#include "commlens/report/charts_script.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_most_bytes = std::size_t{1} << 30;
constexpr std::chrono::seconds k_longest{60};

/// What this thread has computed.
std::chrono::nanoseconds computed() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// What a heap may take. A script that computes too long gets no more memory, which ends it: it allocates all
/// the time. (Debian's Duktape is built without a limit of time.)
struct Allowance {
  std::size_t bytes = 0;
  std::chrono::nanoseconds end{};
  std::uint32_t calls = 0;
  bool is_late = false;

  bool grants(std::size_t more) {
    constexpr std::uint32_t every = 1024;
    if (++calls % every == 0 && computed() > end) {
      is_late = true;
    }
    return !is_late && bytes + more <= k_most_bytes;
  }
};

/// Before each block, since what is freed must be known.
struct alignas(std::max_align_t) BlockSize {
  std::size_t bytes;
};

void* allocate(void* allowance, duk_size_t size) {
  auto& all = *static_cast<Allowance*>(allowance);
  if (size == 0 || !all.grants(size)) {
    return nullptr;
  }
  auto* const block = static_cast<BlockSize*>(std::malloc(sizeof(BlockSize) + size));
  if (block == nullptr) {
    return nullptr;
  }
  block->bytes = size;
  all.bytes += size;
  return block + 1;
}

void release(void* allowance, void* place) {
  if (place == nullptr) {
    return;
  }
  BlockSize* const block = static_cast<BlockSize*>(place) - 1;
  static_cast<Allowance*>(allowance)->bytes -= block->bytes;
  std::free(block);
}

void* reallocate(void* allowance, void* place, duk_size_t size) {
  if (place == nullptr) {
    return allocate(allowance, size);
  }
  if (size == 0) {
    release(allowance, place);
    return nullptr;
  }
  auto& all = *static_cast<Allowance*>(allowance);
  BlockSize* const block = static_cast<BlockSize*>(place) - 1;
  const std::size_t before = block->bytes;
  if (size > before && !all.grants(size - before)) {
    return nullptr;
  }
  auto* const moved = static_cast<BlockSize*>(std::realloc(block, sizeof(BlockSize) + size));
  if (moved == nullptr) {
    return nullptr;
  }
  moved->bytes = size;
  all.bytes += size - before;
  return moved + 1;
}

void end_of_heap(void* /*allowance*/, const char* message) {
  COMMLENS_CHECK(message == nullptr, "all that may fail in Duktape is called through duk_safe_call");
  std::abort();
}

/// Runs the script, which leaves its function as a global.
duk_ret_t load_script(duk_context* context, void* /*unused*/) {
  const std::string_view script = charts_script();
  duk_push_string(context, "charts.js");
  duk_compile_lstring_filename(context, 0, script.data(), script.size());
  duk_call(context, 0);
  return 0;
}

/// Calls it: texts are passed as texts, never as a part of a program.
duk_ret_t call_script(duk_context* context, void* given) {
  const auto& order = *static_cast<const ChartOrder*>(given);
  duk_get_global_string(context, "commlensChart");
  duk_push_lstring(context, order.head.data(), order.head.size());
  duk_push_lstring(context, order.settings.data(), order.settings.size());
  const duk_idx_t columns = duk_push_array(context);
  for (std::size_t at = 0; at < order.columns.size(); ++at) {
    const std::size_t bytes = order.columns[at].size() * sizeof(double);
    void* const place = duk_push_fixed_buffer(context, bytes);
    if (bytes > 0) {
      std::memcpy(place, order.columns[at].data(), bytes);
    }
    duk_push_buffer_object(context, -1, 0, bytes, DUK_BUFOBJ_FLOAT64ARRAY);
    duk_remove(context, -2);
    duk_put_prop_index(context, columns, static_cast<duk_uarridx_t>(at));
  }
  duk_call(context, 3);
  duk_require_string(context, -1);
  return 1;
}

/// A heap in which the script is loaded.
class DuktapeEngine final : public ChartEngine {
 public:
  Result<std::string> draw(const ChartOrder& order) override {
    allowance_.end = computed() + k_longest;
    Result<std::string> svg =
        open().and_then([&] { return called(call_script, const_cast<ChartOrder*>(&order)); });
    if (!svg) {
      close();  // what it left is unknown
    }
    return svg;
  }

  DuktapeEngine() = default;
  ~DuktapeEngine() override { close(); }

 private:
  Result<void> open() {
    if (context_ != nullptr) {
      return {};
    }
    context_ = duk_create_heap(allocate, reallocate, release, &allowance_, end_of_heap);
    if (context_ == nullptr) {
      return failure("there is no memory for the script of the charts");
    }
    return called(load_script, nullptr).map([](const std::string&) {});
  }

  void close() {
    if (context_ != nullptr) {
      allowance_.is_late = false;
      duk_destroy_heap(context_);
      context_ = nullptr;
    }
    allowance_ = {};
  }

  /// What a function leaves on the stack.
  Result<std::string> called(duk_safe_call_function function, void* given) {
    const duk_int_t status = duk_safe_call(context_, function, given, 0, 1);
    std::string text;
    if (status != DUK_EXEC_SUCCESS) {
      duk_safe_call(context_, error_text, nullptr, 1, 1);
    }
    duk_size_t length = 0;
    const char* const said = duk_get_lstring(context_, -1, &length);
    if (said != nullptr) {
      text.assign(said, length);
    }
    duk_pop(context_);
    if (status == DUK_EXEC_SUCCESS) {
      return text;
    }
    return failure(allowance_.is_late ? "drawing it takes more than a minute" : "cannot be drawn: " + text);
  }

  static duk_ret_t error_text(duk_context* context, void* /*unused*/) {
    duk_safe_to_string(context, -1);
    return 1;
  }

  Allowance allowance_;
  duk_context* context_ = nullptr;
};

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_chart_engine(
    std::unique_ptr<commlens::ChartEngine>& engine) {
  if (!commlens::charts_script().empty()) {
    engine = std::make_unique<commlens::DuktapeEngine>();
  }
}
