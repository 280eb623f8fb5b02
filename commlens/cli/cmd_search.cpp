#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/output_place.hpp"
#include "commlens/app/search_layouts.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

constexpr const char* k_search_examples = R"(Examples:
  commlens search megatron/gpt3-175b --machine dgx_h100 --gpus 1024
  commlens search llama3-70b --machine hgx_b200 --gpus 256 --global-batch 1024 --seq 8192 --format json
  commlens search 13B --machine dgx_a100 --gpus 512 --global-batch 512 --sweep gpus
Exit code 2 where no layout is possible, with what binds.)";

struct SearchFlags {
  SearchRequest request;
  std::string sweep;
  OutputFlags output;
};

Result<ExitCode> search_verb(Console& console, const SearchFlags& flags) {
  if (const Result<void> usable = check_output_place(flags.output.file, flags.request.config); !usable) {
    return tl::unexpected(usable.error());
  }
  SearchRequest request = flags.request;
  request.events = events_of(console);
  const auto written = [&](const auto& result) {
    write_rendered(console, flags.output, result);
    return ExitCode::done;
  };
  return flags.sweep.empty() ? search_layouts(request).map(written) : scale_layouts(request).map(written);
}

}  // namespace

Action declare_search(CLI::App& verb) {
  const auto flags = std::make_shared<SearchFlags>();
  SearchRequest& request = flags->request;
  verb.footer(k_search_examples);
  verb.add_option("MODEL", request.config, config_kinds_text("1.3B"))->required();
  verb.add_option("--machine", request.machine, "A name of commlens machines, or a machine file")
      ->required()
      ->type_name("NAME|FILE");
  verb.add_option("--gpus", request.ranks, "Devices of the job")
      ->required()
      ->check(between(std::int64_t{1}, std::int64_t{1} << 20))
      ->type_name("N");
  verb.add_option("--global-batch", request.global_batch,
                  "Sequences of an iteration (default: those of the configuration)")
      ->check(between(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("B");
  verb.add_option("--seq,--sequence", request.sequence, "Tokens of a sequence (default: the model's)")
      ->check(between(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("S");
  verb.add_option("--framework", request.framework,
                  fmt::format("Whose behaviour: {} (default: what the device was measured with)",
                              fmt::join(search_frameworks(), ", ")))
      ->type_name("NAME");
  verb.add_option("--precision", request.precision, "Of matrix products: bf16, fp8 or fp4")
      ->capture_default_str()
      ->type_name("T");
  verb.add_option("--calibration", request.calibration,
                  "What calibrate --rows has written (default: fits to published runs)")
      ->type_name("FILE.json");
  verb.add_option("--top", request.top, "Layouts that are listed")
      ->check(between(std::int64_t{1}, std::int64_t{100'000}))
      ->capture_default_str()
      ->type_name("K");
  verb.add_option("--retime", request.retime, "Simulate the N fastest, event by event, too")
      ->check(between(std::int64_t{0}, std::int64_t{1000}))
      ->capture_default_str()
      ->type_name("N");
  verb.add_option("--sweep", flags->sweep, "gpus: the fastest layout on each number of devices, up to N")
      ->check(CLI::IsMember({"gpus"}))
      ->type_name("WHAT");
  declare_output(verb, flags->output);
  return [flags](Console& console) { return search_verb(console, *flags); };
}

}  // namespace commlens
