#include "commlens/transport/nccl_algorithms.hpp"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>

namespace commlens {
namespace {

/// A variable of the environment that is set for a while.
class BorrowedVariable {
 public:
  explicit BorrowedVariable(const char* name) : name_(name) {}

  void set(const std::string& value) {
    const char* const before = std::getenv(name_);
    before_ = before == nullptr ? std::nullopt : std::optional<std::string>(before);
    setenv(name_, value.c_str(), 1);
  }
  void restore() const {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Scopes alive in this process: ranks that are threads make their communicators together.
struct OpenScopes {
  std::mutex mutex;
  std::condition_variable all_closed;
  int count = 0;
  std::string chosen;  // of all that are open
  BorrowedVariable algorithm{"NCCL_ALGO"};
  BorrowedVariable protocol{"NCCL_PROTO"};
};

OpenScopes& open_scopes() {
  static OpenScopes scopes;
  return scopes;
}

}  // namespace

std::vector<std::string> nccl_algorithms(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce:
      return {"tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple"};
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
    case CommKind::broadcast:
    case CommKind::reduce:
      return {"ring/ll", "ring/ll128", "ring/simple"};
    case CommKind::all_to_all:
    case CommKind::send:
    case CommKind::recv:
    case CommKind::barrier:
    case CommKind::other:
      break;
  }
  return {};
}

NcclAlgorithmScope::NcclAlgorithmScope(const std::string& algorithm) {
  OpenScopes& scopes = open_scopes();
  std::unique_lock lock(scopes.mutex);
  scopes.all_closed.wait(lock, [&] { return scopes.count == 0 || scopes.chosen == algorithm; });
  if (scopes.count++ == 0) {
    scopes.chosen = algorithm;
    const std::size_t slash = algorithm.find('/');
    scopes.algorithm.set(algorithm.substr(0, slash));
    scopes.protocol.set(algorithm.substr(slash + 1));
  }
}

NcclAlgorithmScope::~NcclAlgorithmScope() {
  OpenScopes& scopes = open_scopes();
  const std::lock_guard lock(scopes.mutex);
  if (--scopes.count == 0) {
    scopes.algorithm.restore();
    scopes.protocol.restore();
    scopes.all_closed.notify_all();
  }
}

}  // namespace commlens
