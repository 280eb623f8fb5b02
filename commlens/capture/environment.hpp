#pragma once

/// How `commlens record` and the capture libraries speak to each other: variables that launchers pass on.
namespace commlens::capture {

constexpr const char* k_folder_variable = "COMMLENS_TRACE";     // where the recording goes; unset: none
constexpr const char* k_command_variable = "COMMLENS_COMMAND";  // what was run, for people

}  // namespace commlens::capture
