#include "commlens/network/simgrid_child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/base/child_process.hpp"
#include "commlens/base/modules.hpp"

namespace commlens {
namespace {

constexpr const char* k_simgrid_file = "libcommlens-simgrid.so";

/// A number of bytes that went over, 0 after an interruption; below 0 where nobody is there.
ssize_t moved(ssize_t count) { return count < 0 && errno == EINTR ? 0 : count; }

[[noreturn]] void work_in_child(const std::filesystem::path& module, const char* entry,
                                const std::function<void(void* entry, int socket)>& work, int socket) {
  socket = confined_child(socket);
  void* const library = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, entry);
  if (function == nullptr) {
    send_bytes(socket,
               fmt::format("{}cannot load {}: {}; install SimGrid (libsimgrid3.32), or rebuild commlens",
                           k_simgrid_reason, module.string(), dlerror()));
    _exit(0);
  }
  try {
    work(function, socket);
  } catch (const std::exception& error) {
    send_bytes(socket, fmt::format("{}SimGrid refuses: {}", k_simgrid_reason, error.what()));
  }
  _exit(0);  // without SimGrid's end, which is slow and prints
}

}  // namespace

bool send_bytes(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = moved(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    if (sent < 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_bytes(int socket, char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::read(socket, bytes, count);
    if (got == 0 || moved(got) < 0) {
      return false;
    }
    bytes += moved(got);
    count -= static_cast<std::size_t>(moved(got));
  }
  return true;
}

std::string receive_all_bytes(int socket) {
  std::string received;
  std::array<char, 65536> block{};
  while (true) {
    const ssize_t got = ::read(socket, block.data(), block.size());
    if (got == 0 || moved(got) < 0) {
      return received;
    }
    received.append(block.data(), static_cast<std::size_t>(moved(got)));
  }
}

Result<std::filesystem::path> simgrid_module() {
  const std::optional<std::filesystem::path> module = module_file(k_simgrid_file);
  if (module) {
    return *module;
  }
  return failure(fmt::format(
      "SimGrid cannot be asked here: {} is not in {}; build commlens where libsimgrid-dev is installed, "
      "or name its directory in COMMLENS_MODULE_PATH",
      k_simgrid_file, searched_for_modules()));
}

SimgridChild start_simgrid_child(const std::filesystem::path& module, const char* entry,
                                 const std::function<void(void* entry, int socket)>& work) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw SystemError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  pid_t process = 0;
  try {
    process = forked_process();
  } catch (const SystemError&) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  if (process == 0) {
    close(ends[0]);
    work_in_child(module, entry, work, ends[1]);
  }
  close(ends[1]);
  return {process, ends[0]};
}

int end_simgrid_child(const SimgridChild& child, bool kills) {
  close(child.commands);
  if (kills) {
    kill(child.process, SIGKILL);
  }
  return end_status_of(child.process);
}

std::string simgrid_end_text(int status) {
  return WIFSIGNALED(status) ? fmt::format("SimGrid crashed ({})", strsignal(WTERMSIG(status)))
                             : "SimGrid ended without times";
}

}  // namespace commlens
