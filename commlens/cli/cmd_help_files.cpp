#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/completion.hpp"
#include "commlens/app/manual.hpp"
#include "commlens/base/file.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/verb_help.hpp"

namespace commlens {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) {
    throw SystemError(fmt::format("cannot make {}: {}", file.parent_path().string(), error.message()));
  }
  write_file_atomically(file, text);
}

constexpr const char* k_help_files_examples = R"(Examples:
  commlens help-files ~/.local/share
bash completes command lines and man finds pages there; zsh needs DIR/zsh/site-functions in its fpath.)";

/// Paths that shells and man(1) search below /usr/share and ~/.local/share.
Result<ExitCode> write_help_files(Console& console, const std::filesystem::path& directory) {
  CLI::App program("", "commlens");
  declare_verbs(program, [](std::string_view) { return true; });
  const std::vector<VerbHelp> verbs = verb_helps(program);
  write_text(directory / "bash-completion" / "completions" / "commlens", bash_completion(verbs));
  write_text(directory / "zsh" / "site-functions" / "_commlens", zsh_completion(verbs));
  write_text(directory / "man" / "man1" / "commlens.1", program_manual(verbs));
  for (const VerbHelp& verb : verbs) {
    write_text(directory / "man" / "man1" / fmt::format("commlens-{}.1", verb.name), verb_manual(verb));
  }
  console.out << fmt::format("{}: completion for bash and zsh, {} manual pages\n", directory.string(),
                             verbs.size() + 1)
              << std::flush;
  return ExitCode::done;
}

}  // namespace

Action declare_help_files(CLI::App& verb) {
  const auto directory = std::make_shared<std::string>();
  verb.footer(k_help_files_examples);
  verb.add_option("DIR", *directory, "Directory to write them to")->required();
  return [directory](Console& console) { return write_help_files(console, *directory); };
}

}  // namespace commlens
