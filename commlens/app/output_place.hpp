#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// Fails where `path`, given as `flag` ("-o"), can take no file: it is a folder, stands in none, or in one in
/// which nothing can be made. Asked before the work, since the place is the user's choice; a disk that is
/// full by then is the system's fault. "-" passes, and devices that can be written.
Result<void> check_file_place(const std::string& flag, const std::string& path);

/// The same of a folder that is written whole; those it stands in are made with it.
Result<void> check_folder_place(const std::string& flag, const std::string& path);

/// Fails where what is written to `path`, given as `flag`, would harm one of the `inputs` (words of the
/// command line, files and others): it is that file by this name or another, stands in a trace folder that is
/// read, or is a folder that holds an input and is replaced.
Result<void> check_apart(const std::string& flag, const std::string& path,
                         const std::vector<std::string>& inputs);

/// Both of a file that -o names.
Result<void> check_output_place(const std::string& path, const std::vector<std::string>& inputs);

}  // namespace commlens
