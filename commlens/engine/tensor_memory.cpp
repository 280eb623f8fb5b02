#include "commlens/engine/tensor_memory.hpp"

#include <mutex>
#include <new>
#include <utility>

#include "commlens/engine/torch.hpp"

namespace commlens::engine {
namespace {

thread_local std::shared_ptr<TensorMemory> of_thread;

/// The header before the data of a counted allocation.
struct Header {
  at::DataPtr block;  // the allocation itself, this header included
  std::shared_ptr<TensorMemory> memory;
  std::int64_t bytes = 0;
};
constexpr std::size_t k_header = 64;  // what LibTorch aligns host memory to
static_assert(sizeof(Header) <= k_header && alignof(Header) <= k_header);

void free_counted(void* data) {
  if (data == nullptr) {
    return;
  }
  auto* const header = reinterpret_cast<Header*>(static_cast<std::byte*>(data) - k_header);
  if (header->memory) {
    header->memory->add(-header->bytes);
  }
  const at::DataPtr block = std::move(header->block);
  header->~Header();
}

/// LibTorch's own allocator, with a header before each block.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* allocator) : allocator_(allocator) {}

#if COMMLENS_TORCH_AT_LEAST(2, 3)
  at::DataPtr allocate(std::size_t bytes) override { return counted(bytes); }
#else
  at::DataPtr allocate(std::size_t bytes) const override { return counted(bytes); }
#endif
#if COMMLENS_TORCH_AT_LEAST(2, 2)
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#endif
  at::DeleterFnPtr raw_deleter() const override { return &free_counted; }

 private:
  at::DataPtr counted(std::size_t bytes) const {
    if (bytes == 0) {
      return {nullptr, nullptr, &free_counted, torch::kCPU};
    }
    at::DataPtr block = allocator_->allocate(bytes + k_header);
    auto* const start = static_cast<std::byte*>(block.get());
    std::shared_ptr<TensorMemory> memory = of_thread;
    if (memory) {
      memory->add(static_cast<std::int64_t>(bytes));
    }
    new (start) Header{std::move(block), std::move(memory), static_cast<std::int64_t>(bytes)};
    return {start + k_header, start + k_header, &free_counted, torch::kCPU};
  }

  c10::Allocator* allocator_;
};

void count_allocations() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never freed: tensors that are static objects may outlive it.
    auto* const allocator = new CountingAllocator(c10::GetAllocator(torch::kCPU));
    c10::SetAllocator(torch::kCPU, allocator, UINT8_MAX);
  });
}

}  // namespace

void TensorMemory::add(std::int64_t bytes) noexcept {
  const std::int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

TensorMemoryScope::TensorMemoryScope() : memory_(std::make_shared<TensorMemory>()) {
  count_allocations();
  before_ = std::exchange(of_thread, memory_);
}

TensorMemoryScope::~TensorMemoryScope() { of_thread = std::move(before_); }

}  // namespace commlens::engine
