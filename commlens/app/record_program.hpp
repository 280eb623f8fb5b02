#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace commlens {

/// The file that a word of a command line starts: a path, or a name looked up in PATH. Nothing when there is
/// none that may be run.
std::optional<std::filesystem::path> executable_of(const std::string& word);

/// Names of the shared libraries that the program in `file` is started with, its own needs and theirs, as the
/// system's loader finds them ("libmpi.so.40"). Empty for scripts, static programs and other machines'
/// programs. The program itself is not run.
std::vector<std::string> libraries_of(const std::filesystem::path& file);

/// What a program prints on standard output; empty when it cannot be run.
std::string output_of(const std::vector<std::string>& command);

/// The MPI libraries that a capture library exists for.
enum class MpiLibrary : std::uint8_t { openmpi, mpich };
std::string_view name_of(MpiLibrary library);   // "openmpi", as --mpi takes it
std::string_view title_of(MpiLibrary library);  // "Open MPI"
std::optional<MpiLibrary> mpi_library_from(std::string_view name);

/// The MPI that one of these libraries is or belongs to.
std::optional<MpiLibrary> mpi_among(const std::vector<std::string>& libraries);

/// Whose launcher a program is, by its name and, where that does not say, by what its --version prints.
/// Nothing when it is no launcher of an MPI.
std::optional<MpiLibrary> launcher_of(const std::filesystem::path& file);

/// A choice and where it comes from, for people.
struct ChosenMpi {
  MpiLibrary library = MpiLibrary::openmpi;
  std::string reason;
  bool is_sure = true;  // false: assumed
};

/// The MPI of a command: that of the first program in it that is linked with one, else that of its launcher,
/// of Python's mpi4py, of the launcher that started this process, of the `mpirun` in PATH. Nothing when the
/// machine shows no MPI at all.
std::optional<ChosenMpi> mpi_of_command(const std::vector<std::string>& command);

}  // namespace commlens
