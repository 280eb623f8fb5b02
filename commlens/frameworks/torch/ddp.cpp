#include "commlens/frameworks/torch/ddp.hpp"

#include <algorithm>
#include <map>

#include "commlens/frameworks/torch/options.hpp"
#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {
namespace {

constexpr std::int64_t k_mebibyte = std::int64_t{1} << 20;
constexpr Bytes k_first_bucket{k_mebibyte};
constexpr Bytes k_usual_bucket{25 * k_mebibyte};
constexpr Bytes k_broadcast_bucket{250 * k_mebibyte};
constexpr Bytes k_no_limit{INT64_MAX};

std::int64_t buffers(const std::vector<Module>& modules) {
  const auto norm = std::find_if(modules.begin(), modules.end(), [](const Module& module) {
    return module.kind == Module::Kind::input_norm;
  });
  return norm == modules.end() ? 0 : norm->parameters.front().count();
}

/// Of batch norm: running mean and variance, in the dtype that the whole model was given, and how many
/// batches it has seen. Others as their modules list them.
std::vector<BucketItem> buffer_items(const Job& job, const std::vector<Module>& modules) {
  const std::int64_t elements = buffers(modules);
  const DType dtype = job.model.fp32_patterns.empty() ? job.train.dtype : DType::fp32;
  std::vector<BucketItem> items;
  if (elements > 0) {
    items = {{elements, dtype}, {elements, dtype}, {1, DType::int64}};
  }
  for (const Module& module : modules) {
    for (const Buffer& buffer : module.buffers) {
      items.push_back({buffer.elements, buffer.dtype});
    }
  }
  return items;
}

std::size_t module_of(const std::vector<Module>& modules, const Parameter* parameter) {
  for (std::size_t at = 0; at < modules.size(); ++at) {
    const std::vector<Parameter>& own = modules[at].parameters;
    if (!own.empty() && &own.front() <= parameter && parameter <= &own.back()) {
      return at;
    }
  }
  return 0;
}

}  // namespace

std::vector<Bucket> assigned(const std::vector<BucketItem>& items, const std::vector<Bytes>& limits) {
  struct Open {
    Bucket bucket;
    std::size_t limit = 0;
  };
  std::vector<Bucket> closed;
  std::vector<DType> types;  // in the order of their first items
  std::map<DType, Open> open;
  for (std::size_t at = 0; at < items.size(); ++at) {
    const BucketItem& item = items[at];
    const auto [found, is_new] = open.try_emplace(item.dtype);
    if (is_new) {
      types.push_back(item.dtype);
    }
    Open& current = found->second;
    current.bucket.dtype = item.dtype;
    current.bucket.parameters.push_back(at);
    current.bucket.elements += item.elements;
    if (Elements{current.bucket.elements} * item.dtype >= limits[current.limit]) {
      closed.push_back(std::exchange(current.bucket, Bucket{}));
      current.limit = std::min(current.limit + 1, limits.size() - 1);
    }
  }
  for (auto type = types.rbegin(); type != types.rend(); ++type) {
    if (!open[*type].bucket.parameters.empty()) {
      closed.push_back(std::move(open[*type].bucket));
    }
  }
  return closed;
}

DataParallel::DataParallel(ProgramBuilder& out, const Groups& groups, const std::vector<Module>& modules)
    : out_(out), groups_(groups), ddp_(options(out.job()).ddp), modules_(modules) {
  for (const Module& module : modules) {
    for (const Parameter& parameter : module.parameters) {
      if (parameter.is_trainable) {
        trainable_.push_back(&parameter);
      }
    }
  }
  for (const Parameter* const parameter : in_gradient_order(modules)) {
    if (parameter->has_gradient()) {
      ready_.push_back(parameter);
    }
  }
  for (const Parameter* const parameter : trainable_) {
    if (!parameter->has_gradient()) {
      ready_.push_back(parameter);
    }
  }
  std::vector<BucketItem> items;
  for (const Parameter* const parameter : trainable_) {
    items.push_back({parameter->count(), parameter->dtype});
  }
  const bool is_one = ddp_.bucket_caps.empty() && (!ddp_.find_unused_parameters || ddp_.static_graph);
  std::vector<Bucket> first = assigned(items, is_one ? std::vector{k_no_limit} : limits());
  std::sort(first.begin(), first.end(),
            [](const Bucket& a, const Bucket& b) { return a.parameters.front() > b.parameters.front(); });
  for (const Bucket& bucket : first) {
    std::vector<const Parameter*>& parameters = buckets_.emplace_back();
    for (const std::size_t at : bucket.parameters) {
      parameters.push_back(trainable_[at]);
    }
  }
}

std::vector<Bytes> DataParallel::limits() const {
  if (!ddp_.bucket_caps.empty()) {
    return ddp_.bucket_caps;
  }
  return ddp_.bucket_cap ? std::vector{*ddp_.bucket_cap} : std::vector{k_first_bucket, k_usual_bucket};
}

std::vector<BucketItem> DataParallel::states() const {
  std::vector<BucketItem> items;
  for (const Module& module : modules_) {
    for (const Parameter& parameter : module.parameters) {
      items.push_back({parameter.count(), parameter.dtype});
    }
  }
  if (ddp_.broadcast_buffers) {
    const std::vector<BucketItem> own = buffer_items(out_.job(), modules_);
    items.insert(items.end(), own.begin(), own.end());
  }
  return items;
}

void DataParallel::broadcast(const std::vector<BucketItem>& items, const Rule& rule, GroupRank root) {
  std::vector<Bucket> buckets = assigned(items, {k_broadcast_bucket});
  std::sort(buckets.begin(), buckets.end(),
            [](const Bucket& a, const Bucket& b) { return a.parameters.front() < b.parameters.front(); });
  for (const Bucket& bucket : buckets) {
    out_.broadcast({groups_.data, root}, {bucket.elements}, bucket.dtype, rule, "module states");
  }
}

void DataParallel::initialise() {
  if (!ddp_.init_sync) {
    return;
  }
  std::int64_t dimensions = 0;
  for (const Parameter* const parameter : trainable_) {
    dimensions += parameter->dimensions;
  }
  out_.all_gather(groups_.data, {1}, DType::int64, k_ddp_verify, "parameter count");
  out_.broadcast({groups_.data, GroupRank{0}}, {2 * dimensions}, DType::int64, k_ddp_verify, "shapes");
  broadcast(states(), k_ddp_states, GroupRank{0});
}

void DataParallel::broadcast_buffers() {
  if (!ddp_.broadcast_buffers || !sends_buffers_) {
    return;
  }
  std::vector<BucketItem> items = buffer_items(out_.job(), modules_);
  for (BucketItem& item : items) {  // mixed precision casts all of them, once their state is broadcast
    item.dtype = ddp_.mixed_buffers.value_or(item.dtype);
  }
  broadcast(items, k_ddp_buffers, GroupRank{0});
}

void DataParallel::rebuild() {
  const std::int64_t needed = ddp_.static_graph ? 2 : 1;
  if (is_rebuilt_ || synced_ < needed || (ddp_.find_unused_parameters && !ddp_.static_graph)) {
    return;
  }
  is_rebuilt_ = true;
  has_failed_ = synced_ > needed;
  std::vector<BucketItem> items;
  for (const Parameter* const parameter : ready_) {
    items.push_back({parameter->count(), parameter->dtype});
  }
  buckets_.clear();
  for (const Bucket& bucket : assigned(items, limits())) {
    std::vector<const Parameter*>& parameters = buckets_.emplace_back();
    for (const std::size_t at : bucket.parameters) {
      parameters.push_back(ready_[at]);
    }
  }
  const Rooted first{groups_.data, GroupRank{0}};
  const auto count = static_cast<std::int64_t>(trainable_.size());
  out_.broadcast(first, {count + 1}, DType::int32, k_ddp_rebuild, "bucket indices");
  out_.broadcast(first, {static_cast<std::int64_t>(buckets_.size())}, DType::int32, k_ddp_rebuild,
                 "bucket sizes");
}

void DataParallel::before_forward(bool syncs) {
  syncs_ = syncs;
  out_.set_reduction(Reduction::sum);
  const bool is_joined = !ddp_.join_inputs.empty();
  if (is_joined) {
    out_.all_reduce(groups_.data, {1}, DType::fp32, k_ddp_join, "ranks with inputs");
  }
  rebuild();
  broadcast_buffers();
  sends_buffers_ = syncs;
  if (is_joined) {
    out_.all_reduce(groups_.data, {1}, DType::fp32, k_ddp_join, "will synchronise");
  }
  next_ = 0;
  open_.clear();
  module_of_bucket_.clear();
  std::size_t least = modules_.size();
  for (const std::vector<const Parameter*>& bucket : buckets_) {
    for (const Parameter* const parameter : bucket) {
      least = parameter->has_gradient() ? std::min(least, module_of(modules_, parameter)) : least;
    }
    module_of_bucket_.push_back(least);
  }
}

bool DataParallel::is_left_out(const Bucket& bucket) const {
  return ddp_.skip_all_reduce_unused_params && bucket.parameters.empty();
}

void DataParallel::issue(const Bucket& bucket) {
  if (is_left_out(bucket)) {
    return;
  }
  out_.set_waiting(Waiting::later);
  out_.set_reduction(Reduction::sum);
  const DType dtype = ddp_.hook_dtype.value_or(ddp_.mixed_dtype.value_or(bucket.dtype));
  out_.all_reduce(groups_.data, {bucket.elements}, dtype, is_rebuilt_ ? k_ddp_bucket : k_ddp_first_bucket,
                  "gradients");
  open_.push_back(out_.last_call());
  out_.set_waiting(Waiting::at_once);
}

void DataParallel::after_backward(std::size_t module) {
  // A static graph's first backward pass reduces everything at its end.
  const bool is_delayed = ddp_.static_graph && synced_ == 0;
  while (syncs_ && !is_delayed && next_ < buckets_.size() && module_of_bucket_[next_] >= module) {
    Bucket bucket;
    const std::vector<const Parameter*>& parameters = buckets_[next_++];
    bucket.dtype = parameters.front()->dtype;
    for (const Parameter* const parameter : parameters) {
      bucket.elements += parameter->count();
      if (parameter->is_used) {
        bucket.parameters.push_back(0);
      }
    }
    issue(bucket);
  }
}

void DataParallel::end_backward() {
  if (!syncs_) {
    return;
  }
  const auto count = static_cast<std::int64_t>(trainable_.size());
  const bool is_delayed = ddp_.static_graph && synced_ == 0;
  ++synced_;
  if (is_delayed) {
    out_.set_reduction(Reduction::sum);
    out_.all_reduce(groups_.data, {count}, DType::int32, k_ddp_unused, "used parameters");
  }
  after_backward(0);
  for (const StepIndex call : open_) {
    out_.wait_for(call);
  }
  if (ddp_.find_unused_parameters && !ddp_.static_graph) {
    out_.set_reduction(Reduction::sum);
    out_.all_reduce(groups_.data, {count}, DType::int32, k_ddp_unused, "used parameters");
  }
}

void DataParallel::end_of_join(Rank last) {
  out_.set_reduction(Reduction::sum);
  out_.all_reduce(groups_.data, {1}, DType::fp32, k_ddp_join, "ranks with inputs");
  out_.set_reduction(Reduction::max);
  out_.all_reduce(groups_.data, {1}, DType::int64, k_ddp_join, "last rank");
  broadcast(states(), k_ddp_join, GroupRank{last.value});
}

}  // namespace commlens::pytorch
