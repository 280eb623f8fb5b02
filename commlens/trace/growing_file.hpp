#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <thread>

namespace commlens {

/// Whether a GrowingFile of some process, this one or another, is open at `path`: it must not be cut then.
bool is_being_filled(const std::filesystem::path& path);

/// A file that one thread fills through memory while a thread of this object makes room ahead: it reserves
/// the disk's blocks (so that no write can hit a full disk) and touches the next pages (so that the filling
/// thread rarely faults). The filling thread calls capacity() and set_used() only, which cost a load or a
/// store.
class GrowingFile {
 public:
  /// How much is reserved ahead, in bytes.
  static constexpr std::uint64_t k_least_reserve = std::uint64_t{8} << 20;

  /// A file of constant size, whose bytes from `start` on are filled again and again: set_used() goes on
  /// counting.
  struct Ring {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
  };

  /// Makes or empties the file, writes `head` and makes the first room. Throws SystemError.
  GrowingFile(const std::filesystem::path& path, std::span<const std::byte> head,
              std::uint64_t least_reserve = k_least_reserve);
  /// The same of a ring, with all its room, which is zeros behind `head`.
  GrowingFile(const std::filesystem::path& path, std::span<const std::byte> head, Ring ring);
  ~GrowingFile() { close(); }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  /// The file's bytes; valid up to capacity() and until close().
  std::byte* bytes() const { return bytes_; }
  /// Bytes that can be written now; what was written before the growth is seen after this.
  std::uint64_t capacity() const { return capacity_.load(std::memory_order_acquire); }
  /// The disk was full, or the file as long as it can be: capacity() stays what it is.
  bool is_full() const { return is_full_.load(std::memory_order_acquire); }
  /// Tells how far the file is filled.
  void set_used(std::uint64_t bytes) { used_.store(bytes, std::memory_order_relaxed); }

  /// Cuts the file after the bytes used (a ring that went round stays as it is) and unmaps it. May be called
  /// again.
  void close() noexcept;

 private:
  void open(const std::filesystem::path& path, std::span<const std::byte> head);
  void map();
  void map(std::uint64_t size);
  /// Adds about `bytes` of capacity, less where the disk has less; marks the file as full when there is none.
  void grow(std::uint64_t bytes);
  /// Takes the disk's blocks for a part of the file.
  bool reserve(std::uint64_t start, std::uint64_t size) const;
  void touch(std::uint64_t from, std::uint64_t to) const;
  void touch_ahead(std::uint64_t from, std::uint64_t to) const;
  void keep_ahead();

  std::uint64_t least_reserve_;
  Ring ring_;  // of no bytes: it grows
  int file_ = -1;
  std::byte* bytes_ = nullptr;
  std::uint64_t mapped_ = 0;  // bytes of address space
  alignas(64) std::atomic<std::uint64_t> capacity_ = 0;
  std::atomic<bool> is_full_ = false;
  alignas(64) std::atomic<std::uint64_t> used_ = 0;
  alignas(64) std::mutex mutex_;
  std::condition_variable stop_;
  bool is_stopping_ = false;  // under mutex_
  std::thread thread_;
};

/// Whether a file may grow to `bytes` without the signal that a process over its limit gets (SIGXFSZ).
bool is_within_file_limit(std::uint64_t bytes);

}  // namespace commlens
