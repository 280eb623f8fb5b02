#include "commlens/app/hang_json.hpp"

#include "commlens/app/hang_facts.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/report/table_json.hpp"

namespace commlens {
namespace {

using nlohmann::ordered_json;

std::string communicator_text(const HangResult& result, std::size_t channel) {
  const CommunicatorId id =
      channel == k_no_channel ? k_no_communicator : result.job.channels[channel].communicator;
  return id == k_no_communicator ? "" : text_of(id);
}

ordered_json call_json(const HangResult& result, const SeenCall& call) {
  ordered_json json = {{"op", name_of(call.op.kind)},
                       {"name", call.name},
                       {"number", nullptr},
                       {"group", numbers_of(members_of(result, call))},
                       {"communicator", communicator_text(result, call.channel)},
                       {"dtype", name_of(call.op.dtype)},
                       {"message_bytes", message_bytes(call.op).value},
                       {"root", nullptr},
                       {"tag", call.tag},
                       {"site", call.site},
                       {"iteration", nullptr}};
  if (call.number > 0) {
    json["number"] = call.number;
  }
  if (call.root >= 0) {
    json["root"] = call.root;
  }
  if (call.iteration != k_unknown_iteration) {
    json["iteration"] = call.iteration;
  }
  return json;
}

ordered_json point_json(const HangResult& result, std::size_t which) {
  const WaitPoint& point = result.graph.points[which];
  ordered_json json = call_json(result, point.call);
  json["inside"] = numbers_of(result, point.waiting);
  json["on_device"] = numbers_of(result, point.on_device);
  json["missing"] = numbers_of(result, result.graph.missing_of(point));
  return json;
}

ordered_json culprit_json(const HangResult& result, const HangCulprit& culprit) {
  const RankProgress& rank = result.job.ranks[culprit.rank];
  ordered_json json = {{"rank", rank.state.rank.value},
                       {"doing", doing_of(result, culprit.rank)},
                       {"host", nullptr},
                       {"pid", nullptr},
                       {"process", name_of(result.processes[culprit.rank])},
                       {"waiting_directly", nullptr},
                       {"waiting_in_all", nullptr},
                       {"last_call", nullptr},
                       {"waits_in", nullptr}};
  if (culprit.waiters) {
    json["waiting_directly"] = culprit.waiters->directly;
    json["waiting_in_all"] = culprit.waiters->in_all;
  }
  if (rank.state.process) {
    json["host"] = rank.state.process->host;
    json["pid"] = rank.state.process->pid;
  }
  if (rank.last) {
    json["last_call"] = call_json(result, *rank.last);
  }
  if (culprit.waits_in) {
    json["waits_in"] = point_json(result, *culprit.waits_in);
  }
  return json;
}

ordered_json side_json(const CallSignature& signature, const std::vector<Rank>& ranks) {
  ordered_json json = {
      {"op", name_of(signature.kind)}, {"name", signature.name}, {"dtype", nullptr},
      {"elements", nullptr},           {"root", nullptr},        {"group", numbers_of(ranks)}};
  if (signature.dtype && signature.elements >= 0) {
    json["dtype"] = name_of(*signature.dtype);
    json["elements"] = signature.elements;
  }
  if (signature.root >= 0) {
    json["root"] = signature.root;
  }
  return json;
}

}  // namespace

ordered_json hang_json(const HangResult& result) {
  ordered_json json = {{"schema", "commlens.hang/1"},
                       {"trace", result.name},
                       {"verdict", name_of(result.finding.verdict)},
                       {"job", name_of(result.run)},
                       {"is_snapshot", result.run == JobRun::running || result.run == JobRun::unknown},
                       {"unchanged_s", static_cast<double>(result.unchanged_for.count()) / 1000.0},
                       {"waiting_ranks", result.finding.waiting},
                       {"is_any_of", result.finding.is_any_of},
                       {"may_compute", result.finding.may_compute},
                       {"culprits", ordered_json::array()},
                       {"stuck_call", nullptr},
                       {"sides", ordered_json::array()},
                       {"rows", rows_json(ranks_table(result))},
                       {"notes", result.notes},
                       {"commands", commands_for(result)}};
  for (const HangCulprit& culprit : result.finding.culprits) {
    json["culprits"].push_back(culprit_json(result, culprit));
  }
  if (result.finding.point) {
    json["stuck_call"] = point_json(result, *result.finding.point);
  }
  if (result.finding.difference) {
    for (const auto& [signature, ranks] : result.finding.difference->sides) {
      json["sides"].push_back(side_json(signature, ranks));
    }
  }
  return json;
}

}  // namespace commlens
