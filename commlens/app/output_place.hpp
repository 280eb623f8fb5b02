#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// Fails if no file can be created at `path`, given as `flag` ("-o"): it is a directory, or its parent
/// directory is missing or not writable. Called before the work, because the path is the user's choice; a
/// disk that is full later is a system error. Accepts "-" and writable devices.
Result<void> check_file_place(const std::string& flag, const std::string& path);

/// The same for a directory that is written as a whole; missing parent directories are created later.
Result<void> check_directory_place(const std::string& flag, const std::string& path);

/// Fails if writing to `path`, given as `flag`, would overwrite one of the `inputs` (words of the command
/// line, files or not): `path` is the same file (also by another name), is inside a trace directory that is
/// read, or is a directory that contains an input and would be replaced.
Result<void> check_apart(const std::string& flag, const std::string& path,
                         const std::vector<std::string>& inputs);

/// The same for a trace, which may replace an earlier one and nothing else; and as check_apart.
Result<void> check_trace_place(const std::string& flag, const std::string& path,
                               const std::vector<std::string>& inputs);

/// Both checks for the file named by -o.
Result<void> check_output_place(const std::string& path, const std::vector<std::string>& inputs);

}  // namespace commlens
