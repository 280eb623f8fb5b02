#include "commlens/frameworks/commlens/flat_units.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "commlens/base/check.hpp"
#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/plan/schemes/pipeline.hpp"

namespace commlens {
namespace {

/// Rows of the vocabulary are split like the outputs of a layer.
TensorSplit held_split(const Parameter& parameter) {
  return parameter.leaf == Leaf::wte ? TensorSplit::column : parameter.split;
}

HeldParameter held(const Parameter& parameter, std::int64_t tp) {
  HeldParameter here;
  here.name = parameter.name;
  here.whole = parameter.shape;
  here.shape = parameter.shape;
  here.split = held_split(parameter);
  here.decays = parameter.decays;
  if (here.split != TensorSplit::replicated) {
    std::int64_t& dimension = here.shape.at(here.split == TensorSplit::column ? 0 : 1);
    COMMLENS_CHECK(dimension % tp == 0, "validated() refuses a tp that does not divide what it splits");
    dimension /= tp;
  }
  here.count = std::accumulate(here.shape.begin(), here.shape.end(), std::int64_t{1}, std::multiplies<>());
  return here;
}

/// Collects the modules of one part of the model.
class ChunkBuilder {
 public:
  ChunkBuilder(const Job& job, const ParameterList& all) : job_(job), all_(all) {}

  HeldChunk build(std::int64_t first_layer, std::int64_t end_layer, bool is_first, bool is_last) {
    if (is_first) {
      start(ModuleRole::embedding, -1);
      add(ModuleKind::embedding, -1);
    }
    for (std::int64_t layer = first_layer; layer < end_layer; ++layer) {
      start(ModuleRole::block, layer);
      add(ModuleKind::layer, layer);
    }
    if (is_last) {
      start(ModuleRole::head, -1);
      add(ModuleKind::final_norm, -1);
      add(ModuleKind::head, -1);
      add_tied_head(is_first);
    }
    if (job_.model.tied_embeddings && is_first && !is_last) {
      chunk_.tied_copy = 0;
    }
    return std::move(chunk_);
  }

 private:
  void start(ModuleRole role, std::int64_t layer) { chunk_.modules.push_back({role, layer, {}}); }

  /// Appends the parameters of `kind` and `layer` to the last module; the list is sorted by both.
  void add(ModuleKind kind, std::int64_t layer) {
    const auto place = [](const Parameter& parameter) {
      return std::pair(parameter.module, parameter.layer);
    };
    const auto found = std::ranges::equal_range(all_.all(), std::pair(kind, layer), std::less<>(), place);
    for (const Parameter& parameter : found) {
      chunk_.modules.back().parameters.push_back(chunk_.parameters.size());
      chunk_.parameters.push_back(held(parameter, job_.layout.tp));
    }
  }

  /// The token table as the projection of a tied head: the embedding's own, or a copy of it.
  void add_tied_head(bool holds_embedding) {
    if (!job_.model.tied_embeddings) {
      return;
    }
    std::size_t row = 0;
    if (!holds_embedding) {
      row = chunk_.parameters.size();
      chunk_.tied_copy = static_cast<std::int64_t>(row);
      chunk_.parameters.push_back(held(all_.all().front(), job_.layout.tp));
    }
    chunk_.modules.back().parameters.push_back(row);
  }

  const Job& job_;
  const ParameterList& all_;
  HeldChunk chunk_;
};

/// Row of the token table that both the embedding and the head use, if the chunk holds one.
std::optional<std::size_t> tied_row(const Job& job, const HeldChunk& chunk) {
  if (!job.model.tied_embeddings) {
    return std::nullopt;
  }
  if (chunk.tied_copy >= 0) {
    return static_cast<std::size_t>(chunk.tied_copy);
  }
  const bool is_whole_model =
      job.layout.pp == 1 && !chunk.modules.empty() && chunk.modules.front().role == ModuleRole::embedding;
  return is_whole_model ? std::optional<std::size_t>(0) : std::nullopt;
}

/// Lays parameters out in units.
class UnitBuilder {
 public:
  UnitBuilder(const Job& job, const HeldChunk& chunk)
      : job_(job), chunk_(chunk), tied_(tied_row(job, chunk)) {}

  std::vector<FlatUnit> buckets() {
    const std::int64_t limit =
        std::max<std::int64_t>(trainer::options(job_).bucket.value / size_of(job_.train.dtype), 1);
    FlatUnit open{"bucket"};
    for (std::size_t row = chunk_.parameters.size(); row-- > 0;) {
      if (row == tied_) {
        close(open);
        add_tied(row);
        continue;
      }
      append(open, row);
      if (open.count >= limit) {
        close(open);
      }
    }
    close(open);
    return std::move(units_);
  }

  std::vector<FlatUnit> modules() {
    FlatUnit persistent{"persistent"};
    persistent.is_persistent = true;
    std::vector<bool> is_placed(chunk_.parameters.size(), false);
    for (const HeldModule& module : chunk_.modules) {
      FlatUnit large{tag_of(module.role)};
      for (const std::size_t row : module.parameters) {
        if (is_placed[row]) {
          continue;
        }
        is_placed[row] = true;
        if (row == tied_) {
          add_tied(row);
        } else {
          const bool is_small = chunk_.parameters[row].count <= job_.train.persistence_threshold;
          append(is_small ? persistent : large, row);
        }
      }
      close(large);
    }
    close(persistent);
    return std::move(units_);
  }

 private:
  static std::string tag_of(ModuleRole role) {
    switch (role) {
      case ModuleRole::embedding:
        return "embedding";
      case ModuleRole::block:
        return "layers";
      case ModuleRole::head:
        return "head";
    }
    return "";
  }

  void append(FlatUnit& unit, std::size_t row) {
    unit.parameters.push_back(row);
    unit.count += chunk_.parameters[row].count;
  }

  void add_tied(std::size_t row) {
    FlatUnit unit{"wte"};
    unit.is_tied_copy = chunk_.tied_copy >= 0;
    append(unit, row);
    close(unit);
  }

  /// Appends the unit unless it is empty, and leaves an empty one of the same tag.
  void close(FlatUnit& unit) {
    if (unit.parameters.empty()) {
      return;
    }
    unit.padded = round_up(unit.count, job_.layout.dp);
    FlatUnit empty{unit.tag};
    units_.push_back(std::exchange(unit, std::move(empty)));
  }

  const Job& job_;
  const HeldChunk& chunk_;
  std::optional<std::size_t> tied_;
  std::vector<FlatUnit> units_;
};

}  // namespace

std::vector<HeldChunk> held_chunks(const Job& job, std::int64_t stage) {
  return held_chunks(job, ParameterList(job.model), stage);
}

std::vector<HeldChunk> held_chunks(const Job& job, const ParameterList& all, std::int64_t stage) {
  const std::int64_t stages = job.layout.pp;
  const std::int64_t chunks = job.layout.virtual_stages;
  const StageBounds bounds = partition_uniform(job.model.layers, stages * chunks);
  std::vector<HeldChunk> held;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto part = static_cast<std::size_t>(chunk * stages + stage);
    held.push_back(
        ChunkBuilder(job, all).build(bounds[part], bounds[part + 1], part == 0, part + 2 == bounds.size()));
  }
  return held;
}

std::vector<FlatUnit> flat_units(const Job& job, const HeldChunk& chunk) {
  UnitBuilder builder(job, chunk);
  return job.train.zero_stage == 3 ? builder.modules() : builder.buckets();
}

std::vector<std::size_t> units_of(const HeldModule& module, const std::vector<FlatUnit>& units) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto is_used = [&](std::size_t row) {
      return std::find(module.parameters.begin(), module.parameters.end(), row) != module.parameters.end();
    };
    const std::vector<std::size_t>& held = units[i].parameters;
    if (!units[i].is_persistent && std::any_of(held.begin(), held.end(), is_used)) {
      rows.push_back(i);
    }
  }
  return rows;
}

std::vector<std::vector<std::size_t>> units_of_modules(const HeldChunk& chunk,
                                                       const std::vector<FlatUnit>& units) {
  std::vector<std::size_t> unit_of(chunk.parameters.size(), units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const std::size_t row : units[i].parameters) {
      unit_of[row] = units[i].is_persistent ? units.size() : i;
    }
  }
  std::vector<std::vector<std::size_t>> of_modules;
  for (const HeldModule& module : chunk.modules) {
    std::set<std::size_t> used;
    for (const std::size_t row : module.parameters) {
      used.insert(unit_of[row]);
    }
    used.erase(units.size());
    of_modules.emplace_back(used.begin(), used.end());
  }
  return of_modules;
}

}  // namespace commlens
