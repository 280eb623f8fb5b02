#include "commlens/engine/checkpoint.hpp"

#include <cerrno>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/base/unfinished.hpp"
#include "commlens/engine/checkpoint_file.hpp"
#include "commlens/trace/mapped_file.hpp"

namespace commlens::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* k_schema = "commlens.checkpoint/2";
constexpr std::int64_t k_json_limit = 64 * 1024 * 1024;
constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();  // ranks, iterations
constexpr std::int64_t k_arrays = 3;                                       // values, first and second moments

/// Properties that must be equal when a checkpoint is read again.
Json identity_of(const Job& job) {
  const ModelConfig& model = job.model;
  return {{"layers", model.layers},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"ffn_hidden", model.ffn_hidden},
          {"vocab", model.vocab},
          {"positions", static_cast<int>(model.positions)},
          {"max_positions", model.max_positions},
          {"rotary_fraction", model.rotary_fraction},
          {"rotary_base", model.rotary_base},
          {"activation", static_cast<int>(model.activation)},
          {"norm_epsilon", model.norm_epsilon},
          {"tied_embeddings", model.tied_embeddings},
          {"parallel_residual", model.parallel_residual},
          {"tp", job.layout.tp},
          {"pp", job.layout.pp},
          {"virtual_stages", job.layout.virtual_stages}};
}

Result<Json> parsed(const std::string& text, const fs::path& path) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return failure(fmt::format("{}: damaged, it is no JSON object", path.string()));
  }
  return json;
}

Result<Json> read_json(const fs::path& path) {
  const Result<std::string> text = read_text_file(path, k_json_limit);
  if (!text) {
    return tl::unexpected(text.error());
  }
  return parsed(*text, path);
}

template <typename T>
T field(const Json& json, const char* key, const fs::path& path) {
  const auto found = json.find(key);
  const bool fits = found != json.end() &&
                    (std::is_same_v<T, std::string> ? found->is_string() : found->is_number_integer());
  if (!fits) {
    throw SystemError(
        fmt::format("{}: damaged, field '{}' is missing or of another type", path.string(), key));
  }
  return found->get<T>();
}

Json json_of(const LossScaler::State& state) {
  return {{"scale", state.scale},
          {"hysteresis_left", state.hysteresis_left},
          {"iteration", state.iteration},
          {"last_overflow", state.last_overflow},
          {"skipped", state.skipped}};
}

LossScaler::State scaler_of(const Json& json, const fs::path& path) {
  const auto scale = json.find("scale");
  if (scale == json.end() || !scale->is_number() || !(scale->get<double>() > 0)) {
    throw SystemError(fmt::format("{}: damaged, the loss scale is no number above 0", path.string()));
  }
  return {.scale = scale->get<double>(),
          .hysteresis_left = field<std::int64_t>(json, "hysteresis_left", path),
          .iteration = field<std::int64_t>(json, "iteration", path),
          .last_overflow = field<std::int64_t>(json, "last_overflow", path),
          .skipped = field<std::int64_t>(json, "skipped", path)};
}

Result<fs::path> newest(const fs::path& directory) {
  const Result<std::string> latest = read_text_file(directory / "latest", 4096);
  if (!latest) {
    return failure(fmt::format("{}: no checkpoint here ({})", directory.string(), latest.error().message));
  }
  const std::string name = latest->substr(0, latest->find('\n'));
  if (!name.starts_with("iteration-") || name.find('/') != std::string::npos) {
    return failure(fmt::format("{}: damaged, it names no checkpoint", (directory / "latest").string()));
  }
  return directory / name;
}

void write_floats(CheckpointFile& file, const torch::Tensor& part) {
  const torch::Tensor floats = part.to(torch::kCPU, torch::kFloat32).contiguous();
  const std::span<const float> values(floats.data_ptr<float>(), static_cast<std::size_t>(floats.numel()));
  file.write(std::as_bytes(values));
}

/// Writes one rank's segments and their description.
void write_rank(const fs::path& directory, std::int64_t iteration, DataParallel& parameters,
                const RankGroups& groups) {
  const std::int64_t rank = groups.world->rank().value;
  CheckpointFile file(directory / fmt::format("rank-{}.bin", rank));
  Json segments = Json::array();
  std::int64_t at = 0;
  for (std::size_t chunk = 0; chunk < parameters.chunk_count(); ++chunk) {
    for (const UnitStorage& unit : parameters.units(chunk)) {
      for (const OwnedSegment& segment : unit.segments()) {
        segments.push_back({{"chunk", chunk},
                            {"parameter", parameters.chunk(chunk).parameters[segment.parameter].name},
                            {"offset", segment.parameter_offset},
                            {"count", segment.count},
                            {"at", at}});
        for (const torch::Tensor& owned : {unit.master, unit.first_moment, unit.second_moment}) {
          write_floats(file, owned.narrow(0, segment.offset, segment.count));
        }
        at += k_arrays * segment.count;
      }
    }
  }
  const Json description{{"iteration", iteration},
                         {"stage", groups.where.pipeline},
                         {"tensor", groups.where.tensor},
                         {"xxh3", file.close()},
                         {"segments", std::move(segments)}};
  write_checkpoint_file(directory / fmt::format("rank-{}.json", rank), description.dump());
}

/// Ranks that write: with ZeRO all, without it the first data rank of each stage and tensor position.
std::vector<std::int64_t> writing_ranks(const Job& job) {
  const Mesh mesh = job.layout.mesh();
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < job.layout.ranks; ++rank) {
    if (job.train.zero_stage > 0 || mesh.position(Rank{rank}, Axis::dp) == 0) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

/// Checksums of the ranks' descriptions, which hold those of their data.
Json described_files(const fs::path& directory, const Job& job) {
  Json files = Json::object();
  for (const std::int64_t rank : writing_ranks(job)) {
    const std::string name = fmt::format("rank-{}.json", rank);
    const Result<std::string> text = read_text_file(directory / name, k_json_limit);
    if (!text) {
      throw SystemError(text.error().message);
    }
    files[name] = checksum_of(std::as_bytes(std::span(*text)));
  }
  return files;
}

/// Removes directories of saves that a killed job did not finish. The caller holds the lock.
void remove_unfinished_saves(const fs::path& directory) {
  std::error_code ignored;
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".iteration-") && name.ends_with(".tmp")) {
      unfinished.push_back(entry.path());
    }
  }
  for (const fs::path& path : unfinished) {
    fs::remove_all(path, ignored);
  }
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    throw SystemError(fmt::format("cannot move {} to {}: {}", from.string(), to.string(), error.message()));
  }
}

void rename_directory(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  fs::remove_all(to, ignored);
  rename_path(from, to);
}

void write_latest(const fs::path& directory, const std::string& name) {
  Unfinished unfinished(directory / ".latest.tmp");
  write_checkpoint_file(unfinished.path(), name + "\n");
  rename_path(unfinished.path(), directory / "latest");
  sync_directory(directory);
  unfinished.finished();
}

/// Puts the segments of one file into the units; adds what was restored to `restored`, per chunk and row.
class RankReader {
 public:
  RankReader(const fs::path& directory, std::int64_t rank, DataParallel& parameters)
      : path_(directory / fmt::format("rank-{}.json", rank)),
        data_path_(directory / fmt::format("rank-{}.bin", rank)),
        parameters_(parameters) {}

  /// `manifest`: of the checkpoint; `verifies`: whether this rank checks the data's checksum.
  void read(const Json& manifest, bool verifies,
            std::map<std::pair<std::size_t, std::size_t>, std::int64_t>& restored) {
    const Json json = description(manifest);
    const Result<MappedFile> data = MappedFile::open(data_path_);
    if (!data) {
      throw SystemError(data.error().message);
    }
    if (verifies && checksum_of(data->bytes()) != field<std::string>(json, "xxh3", path_)) {
      throw SystemError(
          fmt::format("{}: damaged, its checksum is another than when it was written", data_path_.string()));
    }
    const auto segments = json.find("segments");
    if (segments == json.end() || !segments->is_array()) {
      throw SystemError(fmt::format("{}: damaged, it has no segments", path_.string()));
    }
    for (const Json& segment : *segments) {
      restore(segment, *data, restored);
    }
    if (static_cast<std::int64_t>(data->bytes().size()) != floats_ * std::int64_t{sizeof(float)}) {
      throw SystemError(fmt::format("{}: damaged, it holds more than its segments", data_path_.string()));
    }
  }

 private:
  Json description(const Json& manifest) const {
    const Result<std::string> text = read_text_file(path_, k_json_limit);
    if (!text) {
      throw SystemError(text.error().message);
    }
    const auto files = manifest.find("files");
    const auto expected = files == manifest.end() ? files : files->find(path_.filename().string());
    if (files == manifest.end() || expected == files->end() ||
        *expected != checksum_of(std::as_bytes(std::span(*text)))) {
      throw SystemError(
          fmt::format("{}: damaged or of another checkpoint, its checksum is not the one in checkpoint.json",
                      path_.string()));
    }
    Result<Json> json = parsed(*text, path_);
    if (!json) {
      throw SystemError(json.error().message);
    }
    if (field<std::int64_t>(*json, "iteration", path_) != manifest["iteration"]) {
      throw SystemError(fmt::format("{}: damaged, it is of another iteration", path_.string()));
    }
    return std::move(*json);
  }
  void restore(const Json& segment, const MappedFile& data,
               std::map<std::pair<std::size_t, std::size_t>, std::int64_t>& restored) {
    const auto chunk = static_cast<std::size_t>(field<std::int64_t>(segment, "chunk", path_));
    const auto name = field<std::string>(segment, "parameter", path_);
    const auto offset = field<std::int64_t>(segment, "offset", path_);
    const auto count = field<std::int64_t>(segment, "count", path_);
    const auto at = field<std::int64_t>(segment, "at", path_);
    const std::size_t row = row_of(chunk, name);
    const std::int64_t floats = static_cast<std::int64_t>(data.bytes().size() / sizeof(float));
    const std::int64_t whole = parameters_.chunk(chunk).parameters[row].count;
    const bool is_inside = offset >= 0 && count > 0 && count <= whole && offset <= whole - count && at >= 0 &&
                           at <= floats && k_arrays * count <= floats - at;
    if (!is_inside) {
      throw SystemError(fmt::format("{}: damaged, a segment of {} lies outside", path_.string(), name));
    }
    const auto array = [&](std::int64_t which) {
      const auto* const first = reinterpret_cast<const float*>(data.bytes().data()) + at + which * count;
      return torch::from_blob(const_cast<float*>(first), {count}, torch::kFloat32);
    };
    for (UnitStorage& unit : parameters_.units(chunk)) {
      if (unit.parameter(row) != nullptr) {
        unit.set_values(row, offset, array(0));
        unit.set_owned(unit.first_moment, row, offset, array(1));
        unit.set_owned(unit.second_moment, row, offset, array(2));
      }
    }
    restored[{chunk, row}] += count;
    floats_ += k_arrays * count;
  }

  std::size_t row_of(std::size_t chunk, const std::string& name) const {
    if (chunk < parameters_.chunk_count()) {
      const std::vector<HeldParameter>& held = parameters_.chunk(chunk).parameters;
      for (std::size_t row = 0; row < held.size(); ++row) {
        if (held[row].name == name) {
          return row;
        }
      }
    }
    throw SystemError(fmt::format("{}: the model has no parameter {} there", path_.string(), name));
  }

  fs::path path_;
  fs::path data_path_;
  DataParallel& parameters_;
  std::int64_t floats_ = 0;  // in the segments so far
};

}  // namespace

void save_checkpoint(const CheckpointPlace& place, const Progress& progress, const Job& job,
                     DataParallel& parameters, RankGroups& groups) {
  const std::int64_t iteration = progress.iteration;
  const std::string name = fmt::format("iteration-{}", iteration);
  Unfinished unfinished(place.directory / fmt::format(".{}.tmp", name));
  const bool is_first = groups.world->rank().value == 0;
  if (is_first) {
    remove_unfinished_saves(place.directory);
    std::error_code error;
    fs::create_directories(unfinished.path(), error);
    if (error) {
      throw SystemError(
          fmt::format("cannot make the directory {}: {}", unfinished.path().string(), error.message()));
    }
  }
  groups.world->barrier();
  if (job.train.zero_stage > 0 || groups.where.data == 0) {
    write_rank(unfinished.path(), iteration, parameters, groups);
  }
  groups.world->barrier();
  if (is_first) {
    Json manifest{{"schema", k_schema},
                  {"iteration", iteration},
                  {"seed", place.seed},
                  {"model", identity_of(job)},
                  {"dp", job.train.zero_stage > 0 ? job.layout.dp : 1},
                  {"dp_of_job", job.layout.dp},
                  {"files", described_files(unfinished.path(), job)}};
    if (progress.scaler && job.train.dtype == DType::fp16) {
      manifest["loss_scaling"] = json_of(*progress.scaler);
    }
    write_checkpoint_file(unfinished.path() / "checkpoint.json", manifest.dump(2));
    sync_directory(unfinished.path());
    rename_directory(unfinished.path(), place.directory / name);
    sync_directory(place.directory);
    write_latest(place.directory, name);
  }
  groups.world->barrier();
  unfinished.finished();
}

Result<void> prepare_save_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!error && access(directory.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    return failure(fmt::format("--save {}: cannot write there: {}", directory.string(), error.message()));
  }
  const std::optional<std::string> writer = writer_of(directory);
  return writer ? Result<void>(failure(locked_by(directory, *writer))) : Result<void>();
}

Result<std::int64_t> check_checkpoint(const CheckpointPlace& place, const Job& job) {
  const Result<fs::path> path = newest(place.directory);
  if (!path) {
    return tl::unexpected(path.error());
  }
  const fs::path manifest = *path / "checkpoint.json";
  const Result<Json> json = read_json(manifest);
  if (!json) {
    return tl::unexpected(json.error());
  }
  const auto is_count = [&](const char* key) {
    return json->contains(key) && (*json)[key].is_number_integer() && (*json)[key] >= 0 &&
           (*json)[key] <= k_most;
  };
  if (!json->contains("schema") || (*json)["schema"] != k_schema || !is_count("iteration") ||
      !is_count("dp") || !is_count("dp_of_job") || !json->contains("seed") ||
      !(*json)["seed"].is_number_unsigned() || !json->contains("files") || !(*json)["files"].is_object() ||
      !json->contains("model")) {
    return failure(fmt::format("{}: no checkpoint of this version", manifest.string()));
  }
  if ((*json)["seed"] != place.seed) {
    return failure(fmt::format(
        "{}: the run was made with --seed {}, not {}, which gives it the same data in the same order",
        manifest.string(), (*json)["seed"].dump(), place.seed));
  }
  const Json& model = (*json)["model"];
  const Json identity = identity_of(job);
  for (const auto& [key, value] : identity.items()) {
    if (!model.is_object() || !model.contains(key) || model[key] != value) {
      return failure(
          fmt::format("{}: '{}' is {} there and {} here; only the data-parallel size and the ZeRO "
                      "stage may change",
                      manifest.string(), key,
                      model.is_object() && model.contains(key) ? model[key].dump() : std::string("absent"),
                      value.dump()));
    }
  }
  return (*json)["iteration"].get<std::int64_t>();
}

Progress load_checkpoint(const CheckpointPlace& place, const Job& job, DataParallel& parameters,
                         RankGroups& groups) {
  const Result<std::int64_t> iteration = check_checkpoint(place, job);
  if (!iteration) {
    throw SystemError(iteration.error().message);
  }
  const fs::path path = newest(place.directory).value();
  const Json manifest = read_json(path / "checkpoint.json").value();
  const auto writers = manifest["dp"].get<std::int64_t>();
  ParallelLayout layout = job.layout;
  layout.dp = manifest["dp_of_job"].get<std::int64_t>();
  layout.ranks = 0;
  const Result<ParallelLayout> written = resolved(layout);
  if (!written) {
    throw SystemError(fmt::format("{}: {}", path.string(), written.error().message));
  }
  const Mesh mesh = written->mesh();
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> restored;
  for (std::int64_t data = 0; data < writers; ++data) {
    const Rank rank =
        mesh.rank_at({{Axis::pp, groups.where.pipeline}, {Axis::dp, data}, {Axis::tp, groups.where.tensor}});
    // Every data rank reads the file, one of them checks it.
    RankReader(path, rank.value, parameters)
        .read(manifest, data % job.layout.dp == groups.where.data, restored);
  }
  for (std::size_t chunk = 0; chunk < parameters.chunk_count(); ++chunk) {
    const std::vector<HeldParameter>& held = parameters.chunk(chunk).parameters;
    for (std::size_t row = 0; row < held.size(); ++row) {
      if (restored[{chunk, row}] != held[row].count) {
        throw SystemError(
            fmt::format("{}: damaged, it does not hold all of {}", path.string(), held[row].name));
      }
    }
  }
  groups.world->barrier();  // no rank trains before all files were verified
  Progress progress{*iteration, std::nullopt};
  if (const auto scaling = manifest.find("loss_scaling"); scaling != manifest.end()) {
    progress.scaler = scaler_of(*scaling, path / "checkpoint.json");
  }
  return progress;
}

}  // namespace commlens::engine
