#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/cost.hpp"
#include "commlens/app/layout_options.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/base/units.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/number_check.hpp"

namespace commlens {
namespace {

constexpr const char* k_cost_examples = R"(Examples:
  commlens cost all_reduce --machine dgx_h100 --ranks 8 --bytes 1MiB,256MiB
  commlens cost all_gather --machine hgx_b200 --ranks 16 --bytes 512..512MiB --format csv
  commlens cost all_reduce --machine dgx_a100 --library nccl:2.27.3 --ranks 4 --bytes 4MiB --explain
Bytes are those of nccl-tests: all_gather the gathered whole, reduce_scatter and all_to_all the whole input.)";

struct CostFlags {
  std::string bytes;
  CostRequest request;
  OutputFlags output;
};

/// "1MiB", or "512..512MiB": the first doubled as long as it is not above the second.
Result<std::vector<std::int64_t>> sizes_of(const std::string& text) {
  const std::size_t dots = text.find("..");
  const Result<Bytes> first = parse_bytes(text.substr(0, dots));
  const Result<Bytes> last = dots == std::string::npos ? first : parse_bytes(text.substr(dots + 2));
  if (!first || !last || first->value < 1) {
    return failure(fmt::format("--bytes {}: {}", text,
                               !first  ? first.error().message
                               : !last ? last.error().message
                                       : "a message has at least one byte"));
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = first->value; size <= last->value && size < (std::int64_t{1} << 60); size *= 2) {
    sizes.push_back(size);
  }
  return sizes;
}

Result<std::vector<std::int64_t>> all_sizes(const std::string& text) {
  std::vector<std::int64_t> all;
  std::string error;
  for (const std::string& part : comma_list(text)) {
    const Result<std::vector<std::int64_t>> sizes = sizes_of(part);
    if (!sizes) {
      error = sizes.error().message;
      break;
    }
    all.insert(all.end(), sizes->begin(), sizes->end());
  }
  return error.empty() ? Result<std::vector<std::int64_t>>(std::move(all)) : failure(error);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace

Action declare_cost(CLI::App& verb) {
  const auto flags = std::make_shared<CostFlags>();
  CostRequest& request = flags->request;
  verb.footer(k_cost_examples);
  verb.add_option("OP", request.op,
                  "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, send or recv")
      ->required();
  verb.add_option("--machine", request.machine, "A name of commlens machines, or a machine file")
      ->required()
      ->type_name("NAME|FILE");
  verb.add_option("--library", request.library,
                  "nccl, rccl or mpi, and its release (default: what the machine was calibrated with)")
      ->type_name("NAME[:VERSION]");
  verb.add_option("--ranks", request.ranks, "Ranks of the group")
      ->required()
      ->check(between(std::int64_t{1}, std::int64_t{1} << 24))
      ->type_name("N");
  const CLI::Option* const per_node =
      verb.add_option("--gpus-per-node", request.ranks_per_node,
                      "Ranks of the group on each node (default: as many as a node has)")
          ->check(between(std::int64_t{1}, std::int64_t{1} << 16))
          ->type_name("N");
  declare_former_name(verb.add_option("--ranks-per-node", request.ranks_per_node)
                          ->check(between(std::int64_t{1}, std::int64_t{1} << 16)),
                      per_node);
  verb.add_option("--bytes", flags->bytes, "Message sizes; 512..512MiB: doubled from the first to the last")
      ->required()
      ->type_name("LIST");
  verb.add_option("--dtype", request.dtype, "Element type")->capture_default_str()->type_name("T");
  verb.add_option(
          "--algo", request.algorithms,
          "Only these algorithms, as NCCL_ALGO, which counts without it; of mpi, one that was measured")
      ->type_name("LIST");
  verb.add_option("--proto", request.protocols,
                  "Only these protocols, as NCCL_PROTO, which counts without it")
      ->type_name("LIST");
  verb.add_option("--cpu", request.cpu,
                  "Vendor of the CPUs: intel, amd, arm or other (default: the machine's)")
      ->type_name("VENDOR");
  verb.add_option("--tuning", request.tuning_log,
                  "Choose by the table in this log of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING")
      ->type_name("FILE");
  verb.add_flag("--explain", request.explain, "Every algorithm and protocol that the library weighs");
  declare_output(verb, flags->output);
  return [flags](Console& console) -> Result<ExitCode> {
    const CostRequest& given = flags->request;
    if (const Result<void> usable = check_output_place(flags->output.file, {given.machine, given.tuning_log});
        !usable) {
      return tl::unexpected(usable.error());
    }
    return all_sizes(flags->bytes).and_then([&](const std::vector<std::int64_t>& sizes) {
      CostRequest asked = flags->request;
      asked.bytes = sizes;
      asked.environment_algorithms = variable("NCCL_ALGO");
      asked.environment_protocols = variable("NCCL_PROTO");
      return cost(asked).map([&](const CostResult& result) {
        if (flags->output.format == "csv" && !result.from_environment.empty()) {
          warn(console, fmt::format("from the environment: {}", fmt::join(result.from_environment, ", ")));
        }
        write_rendered(console, flags->output, result);
        return ExitCode::done;
      });
    });
  };
}

}  // namespace commlens
