#include "commlens/network/simgrid_session.hpp"

#include <utility>

#include <fmt/format.h>

#include "commlens/network/simgrid.hpp"

namespace commlens {
namespace {

template <typename Plain>
std::string_view bytes_of(const Plain& plain) {
  return {reinterpret_cast<const char*>(&plain), sizeof(plain)};
}

}  // namespace

Result<SimgridSession> SimgridSession::start(const SimgridNetwork& network) {
  if (network.hosts > k_simgrid_hosts) {
    return failure(fmt::format("SimGrid is asked for {} hosts; it plays up to {}: use commlens' own flows",
                               network.hosts, k_simgrid_hosts));
  }
  return simgrid_module().and_then([&](const std::filesystem::path& module) -> Result<SimgridSession> {
    const SimgridChild child = start_simgrid_child(
        module, "commlens_simgrid_serve",
        [&](void* entry, int socket) { reinterpret_cast<SimgridServe>(entry)(network, socket); });
    char first = 0;
    if (receive_bytes(child.commands, &first, 1) && first == k_simgrid_ready) {
      return SimgridSession(child);
    }
    const std::string reason = receive_all_bytes(child.commands);
    const int status = end_simgrid_child(child, false);
    return failure(first == k_simgrid_reason ? reason : simgrid_end_text(status));
  });
}

SimgridSession::SimgridSession(SimgridSession&& other) noexcept : child_(std::exchange(other.child_, {})) {}

SimgridSession& SimgridSession::operator=(SimgridSession&& other) noexcept {
  std::swap(child_, other.child_);
  return *this;
}

SimgridSession::~SimgridSession() {
  if (child_.process > 0) {
    end_simgrid_child(child_, true);
  }
}

void SimgridSession::fail() {
  const int status = end_simgrid_child(std::exchange(child_, {}), false);
  throw SystemError(simgrid_end_text(status));
}

void SimgridSession::begin(std::uint32_t call, double seconds, std::span<const SimgridStream> streams) {
  const SimgridCommand command{static_cast<std::int64_t>(streams.size()), call, seconds};
  // A process that has ended may have said why: next_end() reads it.
  send_bytes(child_.commands, bytes_of(command));
  send_bytes(child_.commands, {reinterpret_cast<const char*>(streams.data()), streams.size_bytes()});
}

/// Fails unless an answer follows.
void SimgridSession::receive_kind() {
  char kind = 0;
  if (receive_bytes(child_.commands, &kind, 1) && kind == k_simgrid_answer) {
    return;
  }
  const std::string reason = kind == k_simgrid_reason ? receive_all_bytes(child_.commands) : "";
  if (reason.empty()) {
    fail();
  }
  end_simgrid_child(std::exchange(child_, {}), true);
  throw SystemError(reason);
}

std::optional<SimgridSession::End> SimgridSession::next_end(double limit) {
  SimgridAnswer answer;
  // Where it cannot be asked it may have said why.
  send_bytes(child_.commands, bytes_of(SimgridCommand{.seconds = limit}));
  receive_kind();
  if (!receive_bytes(child_.commands, reinterpret_cast<char*>(&answer), sizeof(answer))) {
    fail();
  }
  if (answer.call < 0) {
    return std::nullopt;
  }
  return End{static_cast<std::uint32_t>(answer.call), answer.seconds};
}

}  // namespace commlens
