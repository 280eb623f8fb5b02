#include "tests/foreign/foreign_files.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/check.hpp"
#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_sample_size = std::size_t{16} << 10;

constexpr std::array k_sampled = {
    "chakra/chakra.0.et",
    "chakra/pytorch_et_1.0.2-chakra.0.0.4.json",
    "kineto/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "kineto/cpu_only_gloo/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "kineto/dlrm_kineto_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
    "kineto/nccl_parser_config/nccl_data.json.gz",
    "kineto/trace_filter_128rank/sampled_rank-0.json.gz",
    "nccl_log/nccl_203_tf_2rank.log",
    "nccl_log/nccl_584_sendrecv_and_147_interleaved.log",
    "nccl_log/rccl_task_globalrank.log",
    "nccl_profiler/nccl_1765_ext-profiler_v1.json.txt",
    "nccl_profiler/nccl_1973_kernelch.json.txt",
    "nccl_profiler/pha-Z_v5_p2p_trace_lines.json.txt",
    "nccl_tests/nccl_allgather.log",
    "nccl_tests/nccl_allreduce.log",
    "nccl_tests/nccl_alltoall.log",
    "nccl_tests/nccl_reduce.log",
    "osu/raw_log_README.md",
    "pytorch_et/dlrm_et_8rank/dlrm_eg_0.json.gz",
    "pytorch_et/resnet_2gpu_et_1.1.0.json.gz",
};

/// The number after "correlation" in an event's text; empty without one.
std::string_view correlation_of(std::string_view event) {
  constexpr std::string_view k_key = "\"correlation\"";
  constexpr std::string_view k_digits = "0123456789";
  const std::size_t key = event.find(k_key);
  const std::size_t begin =
      key == std::string_view::npos ? key : event.find_first_of(k_digits, key + k_key.size());
  if (begin == std::string_view::npos) {
    return {};
  }
  const std::size_t end = event.find_first_not_of(k_digits, begin);
  return event.substr(begin, std::min(end, event.size()) - begin);
}

bool is_about_communication(std::string_view event) {
  constexpr std::array parts = {"nccl", "c10d", "record_param_comms", "ProfilerStep", "gloo:"};
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return event.find(part) != std::string_view::npos; });
}

/// The events to keep, in their order.
std::vector<std::string> fewer_of(const std::vector<std::string>& events) {
  std::set<std::size_t> kept;
  std::set<std::string, std::less<>> correlations;
  std::size_t size = 0;
  const auto keep_those = [&](std::size_t most, const auto& is_wanted) {
    for (std::size_t at = 0; at < events.size() && size < most; ++at) {
      if (is_wanted(events[at]) && kept.insert(at).second) {
        size += events[at].size();
        correlations.emplace(correlation_of(events[at]));
      }
    }
  };
  keep_those(k_sample_size / 2, is_about_communication);
  keep_those(k_sample_size * 3 / 4, [&](std::string_view event) {  // their launches
    const std::string_view correlation = correlation_of(event);
    return !correlation.empty() && correlations.contains(correlation);
  });
  keep_those(k_sample_size, [](std::string_view /*event*/) { return true; });
  std::vector<std::string> fewer;
  for (const std::size_t at : kept) {
    fewer.push_back(events[at]);
  }
  return fewer;
}

/// A JSON file with fewer elements of `array`; empty where it has no such array.
std::string shortened(const std::filesystem::path& file, std::string_view array) {
  Result<formats::JsonStream> stream = formats::JsonStream::open(file, array);
  formats::JsonStream::Piece piece;
  std::string members;
  std::vector<std::string> events;
  while (true) {
    const Result<bool> more = stream ? stream->next(piece) : false;
    COMMLENS_CHECK(more.has_value(), "the test data is JSON");
    if (!*more) {
      break;
    }
    if (piece.is_run) {
      const std::vector<std::string_view> run = formats::elements_of(piece.json);
      events.insert(events.end(), run.begin(), run.end());
    } else {
      members += fmt::format("\"{}\": {},\n", piece.key, piece.json);
    }
  }
  return events.empty()
             ? ""
             : fmt::format("{{{}\"{}\": [{}]}}", members, array, fmt::join(fewer_of(events), ",\n"));
}

/// The text of a file, unpacked and made small.
std::string sample_of(const std::filesystem::path& file) {
  const Result<std::string> text = formats::read_head(file, k_sample_size + 1);
  COMMLENS_CHECK(text.has_value(), "the test data can be read");
  if (text->size() <= k_sample_size) {
    return *text;
  }
  for (const std::string_view array : {"traceEvents", "nodes"}) {
    const bool is_json = text->find('{') == text->find_first_not_of(" \n");
    const std::string small = is_json ? shortened(file, array) : "";
    if (!small.empty()) {
      return small;
    }
  }
  return text->substr(0, k_sample_size);
}

bool is_trace_of_a_tool(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name != "ground_truth.json" && !name.starts_with("LICENSE") && name != "README.md";
}

}  // namespace

std::filesystem::path foreign_directory() {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  const std::filesystem::path directory =
      data == nullptr ? std::filesystem::path() : std::filesystem::path(data) / "golden/foreign";
  return std::filesystem::is_directory(directory) ? directory : std::filesystem::path();
}

std::vector<std::filesystem::path> foreign_files() {
  std::vector<std::filesystem::path> files;
  if (foreign_directory().empty()) {
    return files;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(foreign_directory())) {
    if (entry.is_regular_file() && is_trace_of_a_tool(entry.path())) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

ForeignSample foreign_sample(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  if (name.ends_with(".gz")) {
    name.resize(name.size() - std::string_view(".gz").size());
  }
  return {name, sample_of(file)};
}

std::vector<std::filesystem::path> sampled_files() {
  std::vector<std::filesystem::path> files;
  for (const char* const name : k_sampled) {
    files.push_back(foreign_directory() / name);
  }
  return files;
}

void find_modules_beside_program() {
  if (const char* const binary = std::getenv("COMMLENS_BINARY"); binary != nullptr) {
    setenv("COMMLENS_MODULE_PATH", std::filesystem::path(binary).parent_path().c_str(), 1);
  }
}

}  // namespace commlens
