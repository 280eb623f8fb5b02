#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "commlens/base/result.hpp"

namespace commlens {

/// A process that has loaded libcommlens-simgrid.so: SimGrid has one engine a process and ends the process
/// where it is wrong.
struct SimgridChild {
  pid_t process = 0;
  int commands = -1;  // a socket, to write to it and read from it
};

/// The module; fails where it is not installed.
Result<std::filesystem::path> simgrid_module();

/// Starts a process that calls `work` with the module's entry and its end of the socket, and ends. Where the
/// module cannot be loaded, or `work` throws, it sends k_simgrid_reason and one line instead.
SimgridChild start_simgrid_child(const std::filesystem::path& module, const char* entry,
                                 const std::function<void(void* entry, int socket)>& work);
constexpr char k_simgrid_reason = 'r';

/// Ends the process where it still runs; how it ended, as waitpid has it.
int end_simgrid_child(const SimgridChild& child, bool kills);
/// "SimGrid crashed (Segmentation fault)".
std::string simgrid_end_text(int status);

/// Whether all bytes went over, or came; false where nobody is at the other end.
bool send_bytes(int socket, std::string_view bytes);
bool receive_bytes(int socket, char* bytes, std::size_t count);
/// Until the other end closes.
std::string receive_all_bytes(int socket);

}  // namespace commlens
