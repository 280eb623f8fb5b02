#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/import_files.hpp"
#include "commlens/base/units.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/report/coverage_report.hpp"

namespace commlens {
namespace {

constexpr const char* k_import_examples = R"(Examples:
  commlens import calls.jsonl.gz -o trace/
  commlens import log/rank*.pt.trace.json.gz -o trace/
  commlens import rank0.pt.trace.json.gz nccl.log --assume-world -o trace/)";

struct ImportFlags {
  std::vector<std::string> files;
  std::string directory;
  bool assume_world = false;
};

std::string matched_text(const ImportResult::Matched& matched) {
  return fmt::format("; {} collectives and {} messages matched between ranks, {} lack the call of a rank",
                     with_commas(matched.collectives), with_commas(matched.messages),
                     with_commas(matched.incomplete));
}

Result<ExitCode> import_verb(Console& console, const ImportFlags& flags) {
  return import_files({flags.files, flags.directory, events_of(console), flags.assume_world})
      .map([&](const ImportResult& result) {
        const std::string skipped = reasons_text(result.skipped);
        const std::string assumed = reasons_text(result.assumed);
        console.out << fmt::format("{}: {} call{}, {} rank{}{}{}{}\n", flags.directory,
                                   with_commas(result.calls), result.calls == 1 ? "" : "s",
                                   with_commas(result.ranks), result.ranks == 1 ? "" : "s",
                                   result.matched ? matched_text(*result.matched) : "",
                                   skipped.empty() ? "" : "; skipped: " + skipped,
                                   assumed.empty() ? "" : "; assumed: " + assumed)
                    << std::flush;
        return ExitCode::done;
      });
}

}  // namespace

Action declare_import(CLI::App& verb) {
  const auto flags = std::make_shared<ImportFlags>();
  verb.footer(k_import_examples);
  verb.add_option(
          "FILE", flags->files,
          fmt::format("Several files are one job. Read by their content: {}", formats::importer_names()))
      ->required();
  verb.add_option("-o,--output", flags->directory, "Directory of the native trace; a trace there is replaced")
      ->required()
      ->type_name("DIR");
  verb.add_flag(
      "--assume-world", flags->assume_world,
      "Of one rank's profile: ranks that no file has make the same calls, as the ranks of the NCCL log do");
  return [flags](Console& console) { return import_verb(console, *flags); };
}

}  // namespace commlens
