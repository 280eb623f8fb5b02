#include "commlens/machine/calibrate/calibrate.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "commlens/machine/cost/form.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

constexpr const char* k_counted =
    "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n";
constexpr const char* k_swept =
    "machine,library,op,ranks,nodes,ranks_per_node,dtype,bytes,time_us,algbw,busbw,source\n";

std::string csv_row(std::int64_t ranks, std::int64_t elements, double ms) {
  return "X,2.27.3,NVIDIA A100-SXM4-80GB,all_gather,NCCL,half," + std::to_string(ranks) + "," +
         std::to_string(elements) + "," + std::to_string(ms) + "\n";
}

/// A sweep of 512 B to 64 MiB whose times are 10 us and what a rank sends at 200 GB/s.
std::string clean_sweep() {
  std::string text = k_counted;
  for (const std::int64_t ranks : {2, 8}) {
    for (std::int64_t elements = 256; elements <= (32 << 20); elements *= 4) {
      const double sent =
          static_cast<double>(elements) * 2 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
      text += csv_row(ranks, elements, .01 + sent / 200e6);
    }
  }
  return text;
}

std::string refusal_of_sweep(const std::string& text) {
  const Result<CalibrationOutput> output =
      parse_sweep_csv("s.csv", text).and_then([](const SweepFile& sweep) {
        return calibrated({*find_machine("dgx_a100"), sweep.points, "test"});
      });
  return output ? "" : output.error().message;
}

TEST(SweepCsv, CountsElementsAndMilliseconds) {
  const Result<SweepFile> sweep = parse_sweep_csv("s.csv", k_counted + csv_row(2, 268'435'456, 1.7898));
  ASSERT_TRUE(sweep) << sweep.error().message;
  EXPECT_EQ(sweep->points.front().call.bytes, Bytes{536'870'912});
  EXPECT_NEAR(sweep->points.front().us, 1789.8, 1e-9);
  EXPECT_EQ(sweep->points.front().version, "2.27.3");
  EXPECT_EQ(sweep->points.front().where, "s.csv:2");
}

TEST(SweepCsv, SaysWhichAlgorithmWasAskedFor) {
  const std::string text =
      std::string(k_swept) +
      "\"M5, H100\",NCCL/MPI allreduce_nccl_ring; vsnccl,all_reduce,16,4,4,int32,256,42,0,0,x\n"
      "\"M5, H100\",NCCL/MPI allreduce_nccl_nvlstree; vsnccl,all_reduce,16,4,4,int32,256,42,0,0,x\n"
      "\"M5, H100\",NCCL/MPI allreduce_hier_bw_mpi; vsnccl,all_reduce,16,4,4,int32,256,71,0,0,x\n"
      "LUMI,Cray MPICH ring_over_int32,bcast,16,16,1,int32,256,92,0,0,x\n"
      "AAC8,RCCL,all_reduce,8,1,8,float,8,19,0,0,x\n"
      "LUMI,Cray MPICH ring_over_int32,scatter,16,16,1,int32,256,92,0,0,x\n"
      "mine,nccl:2.27.3,all_reduce,8,1,8,float,8,19,0,0,x\n";
  const Result<SweepFile> sweep = parse_sweep_csv("s.csv", text);
  ASSERT_TRUE(sweep) << sweep.error().message;
  ASSERT_EQ(sweep->points.size(), 6U);
  EXPECT_EQ(sweep->points[5].library, "nccl");
  EXPECT_EQ(sweep->points[0].library + " " + sweep->points[0].algorithm, "nccl ring");
  EXPECT_EQ(sweep->points[1].library + " " + sweep->points[1].algorithm, "nccl nvls_tree");
  EXPECT_EQ(sweep->points[2].library + " " + sweep->points[2].algorithm, "mpi hier_bw");
  EXPECT_EQ(sweep->points[3].library + " " + sweep->points[3].algorithm, "mpi ring_over");
  EXPECT_EQ(sweep->points[4].library + " " + sweep->points[4].algorithm, "rccl ");
  EXPECT_EQ(sweep->points[0].call.place.nodes, 4);
  EXPECT_EQ(sweep->notes, (std::vector<std::string>{"s.csv: 1 rows of scatter are skipped"}));
}

// 7 GB of shards on 16 nodes, 32 times 350 MB on 32: one gather over the nodes. 14 MB in every job: of a
// node.
TEST(SweepCsv, SeesWhichGathersGoOverTheNodes) {
  const std::string text = std::string(k_swept) +
                           "L,RCCL,\"all_gather(in-app, median of 8)\",8,16,8,bf16,700973056,149950,,,x\n"
                           "L,RCCL,\"all_gather(in-app, median of 16)\",8,32,8,bf16,350486528,222365,,,x\n"
                           "L,RCCL,\"all_gather(in-app, median of 2330)\",8,16,8,bf16,14680064,1190,,,x\n";
  const Result<SweepFile> sweep = parse_sweep_csv("s.csv", text);
  ASSERT_TRUE(sweep) << sweep.error().message;
  EXPECT_EQ(sweep->points[0].call.place.nodes, 16);
  EXPECT_EQ(sweep->points[0].call.bytes, Bytes{11'215'568'896});
  EXPECT_EQ(sweep->points[1].call.place.ranks, 32);
  EXPECT_EQ(sweep->points[2].call.place.nodes, 1);
  EXPECT_EQ(sweep->points[2].weight, 2330);
}

TEST(SweepCsv, ThatCannotBeIsRefused) {
  EXPECT_EQ(refusal_of_sweep(k_counted), "s.csv: no row with a time of a known collective");
  EXPECT_EQ(refusal_of_sweep(std::string(k_counted) + "X,2.27.3,A100,all_gather,NCCL,half,2,256,nan\n"),
            "s.csv:2: latency: 'nan' is not a number");
  EXPECT_EQ(refusal_of_sweep(k_counted + csv_row(2, 256, 0)),
            "s.csv:2: latency is 0.000000; it must be above 0");
  EXPECT_EQ(refusal_of_sweep(std::string(k_counted) + "X,2.27.3,A100,all_gather\n"),
            "s.csv:2: 4 cells, its header has 9");
  EXPECT_EQ(refusal_of_sweep(std::string(k_counted) + "X,2.31.0,A100,all_gather,NCCL,half,2,256,.01\n"
                                                      "X,2.31.0,A100,all_gather,NCCL,half,2,512,.01\n"
                                                      "X,2.31.0,A100,all_gather,NCCL,half,2,1024,.01\n"),
            "s.csv:2: NCCL '2.31.0' has no table here; known are 2.18 to 2.30");
}

std::string swept_row(const std::string& library, const std::string& layout, const std::string& bytes_us) {
  return "X," + library + ",all_gather," + layout + ",half," + bytes_us + ",0,0,x\n";
}

TEST(SweepCsv, TakesTheReleaseInTheLibrary) {
  const Result<SweepFile> sweep = parse_sweep_csv(
      "s.csv", k_swept + swept_row("nccl:2.27.3", "8,1,8", "512,20") +
                   swept_row("allreduce_nccl_ring", "8,1,8", "512,20") + swept_row("", "8,1,8", "512,20"));
  ASSERT_TRUE(sweep) << sweep.error().message;
  EXPECT_EQ(sweep->points[0].library + " " + sweep->points[0].version, "nccl 2.27.3");
  EXPECT_EQ(sweep->points[1].library + " " + sweep->points[1].algorithm, "nccl ring");
  EXPECT_EQ(sweep->points[2].library + sweep->points[2].algorithm, "");
}

TEST(SweepCsv, OfAnUnknownLibraryOrReleaseIsRefused) {
  const auto refused = [](const std::string& library) {
    return refusal_of_sweep(k_swept + swept_row(library, "8,1,8", "512,20"));
  };
  EXPECT_EQ(refused("banana"),
            "s.csv:2: library 'banana' is not known; name nccl, rccl or mpi, with a release as nccl:2.27.3");
  EXPECT_EQ(refused("nccl:2.99.1"), "s.csv:2: NCCL '2.99.1' has no table here; known are 2.18 to 2.30");
  EXPECT_EQ(refused("rccl:"), "s.csv:2: library 'rccl:': the release is missing");
  EXPECT_EQ(refused("nvshmem:1"), "s.csv:2: library 'nvshmem' is not known; choose nccl, rccl or mpi");
}

TEST(SweepCsv, OfRanksThatDoNotFillNodesIsRefused) {
  const auto refused = [](const std::string& layout) {
    return refusal_of_sweep(k_swept + swept_row("nccl:2.27.3", layout, "512,20"));
  };
  EXPECT_EQ(refused("12,2,8"), "s.csv:2: 12 ranks on 2 nodes with 8 on each cannot be");
  EXPECT_EQ(refused("8,2,8"), "s.csv:2: 8 ranks on 2 nodes with 8 on each cannot be");
  EXPECT_EQ(refused("3,2,"), "s.csv:2: 3 ranks on 2 nodes with 1 on each cannot be");
  EXPECT_EQ(refused("16,1,16"), "s.csv:2: 16 ranks on a node: dgx_a100 has 8");
}

TEST(Calibration, OfALibraryThatDoesNotRunThereIsRefused) {
  EXPECT_EQ(refusal_of_sweep(k_swept + swept_row("RCCL", "8,1,8", "512,20")),
            "s.csv:2: rccl does not run on dgx_a100 (NVIDIA A100)");
}

TEST(Calibration, OfTimesThatFallWithSizeIsRefused) {
  EXPECT_EQ(
      refusal_of_sweep(k_swept + swept_row("nccl:2.27.3", "8,1,8", "512,900") +
                       swept_row("nccl:2.27.3", "8,1,8", "4096,100") +
                       swept_row("nccl:2.27.3", "8,1,8", "65536,40")),
      "s.csv:2: 900 us of 512 bytes, and 40 us of 65536 bytes at s.csv:4: times fall with size; are the "
      "columns swapped?");
}

TEST(Calibration, NamesReplicatesFarApartAndTimesThatFallOnTheWay) {
  const std::string text =
      k_swept + swept_row("nccl:2.27.3", "8,1,8", "512,20") + swept_row("nccl:2.27.3", "8,1,8", "512,120") +
      swept_row("nccl:2.27.3", "8,1,8", "4096,500") + swept_row("nccl:2.27.3", "8,1,8", "65536,90");
  const Result<CalibrationOutput> output =
      parse_sweep_csv("s.csv", text).and_then([](const SweepFile& sweep) {
        return calibrated({*find_machine("dgx_a100"), sweep.points, "test"});
      });
  ASSERT_TRUE(output) << output.error().message;
  ASSERT_GE(output->notes.size(), 2U);
  EXPECT_EQ(output->notes[0], "s.csv:2: 20 us, and 120 us of the same call at s.csv:3: the median is taken");
  EXPECT_EQ(output->notes[1], "s.csv:4: 500 us of 4096 bytes, 5.6 times as long as 65536 bytes at s.csv:5");
}

TEST(Calibration, OfOneSizeOrOfRowsGivenTwiceIsRefused) {
  EXPECT_EQ(refusal_of_sweep(k_counted + csv_row(2, 256, .01) + csv_row(8, 256, .02)),
            "s.csv:2: 1 message sizes; a fit needs 3");
  const std::string rows = clean_sweep();
  EXPECT_EQ(refusal_of_sweep(rows + rows.substr(rows.find('\n') + 1)),
            "s.csv:2: every row is there twice with the same time; give each sweep once");
}

// 512 MiB among 2 ranks in 447 us: 600 GB/s of bus bandwidth over links of 300.
TEST(Calibration, OfTwiceTheLinkIsAUnitError) {
  EXPECT_EQ(refusal_of_sweep(clean_sweep() + csv_row(2, 268'435'456, .447)),
            "s.csv:20: 601 GB/s of bus bandwidth, 2.0 times what the links of dgx_a100 carry (300 GB/s): "
            "times or sizes "
            "are in another unit");
}

TEST(Calibration, FollowsACleanSweep) {
  const Result<SweepFile> sweep = parse_sweep_csv("s.csv", clean_sweep());
  const Result<CalibrationOutput> output = calibrated({*find_machine("dgx_a100"), sweep->points, "test"});
  ASSERT_TRUE(output) << output.error().message;
  for (const PairError& error : output->errors) {
    EXPECT_LT(error.median, .05) << error.algorithm << error.protocol;
  }
  ASSERT_EQ(output->machine.calibrations.size(), 2U);
  EXPECT_EQ(output->machine.calibrations.front().source, "test");
  for (const PairFit& pair : output->machine.calibrations.front().pairs) {
    for (const double coefficient : pair.coefficients) {
      EXPECT_GE(coefficient, 0);
    }
  }
}

CollectiveTime a100_time(const Machine& machine, const std::string& version, CommKind op) {
  const CostQuery query{
      &machine, nullptr, {"nccl", version, {}, {}}, {op, Bytes{1 << 20}, DType::fp16, {8, 1}}, {}};
  return collective_time(query).value_or(CollectiveTime{});
}

// all_reduce of 1 MiB on 8 A100: 38.85 us of fp16 and 40.39 of int8 in the sweep that the machine came with
// (aiconfigurator, a100_sxm): 39.6. all_gather by the clean sweep: 10 us and 7/8 MiB at 200 GB/s, 14.59.
TEST(Calibration, OfOneOperationKeepsTheOthersWithTheirSource) {
  const Result<SweepFile> sweep = parse_sweep_csv("s.csv", clean_sweep());
  const Result<CalibrationOutput> output = calibrated({*find_machine("dgx_a100"), sweep->points, "mine"});
  ASSERT_TRUE(output) << output.error().message;
  const CollectiveTime kept = a100_time(output->machine, "2.27.3", CommKind::all_reduce);
  EXPECT_NEAR(kept.us, std::sqrt(38.85 * 40.39), .01);
  EXPECT_EQ(kept.source, TimeSource::measured);
  EXPECT_EQ(kept.source_of.substr(0, 27), "ai-dynamo/aiconfigurator@09");
  const CollectiveTime fresh = a100_time(output->machine, "2.27.3", CommKind::all_gather);
  EXPECT_NEAR(fresh.us, 10 + 1048576 * 7. / 8 / 200e3, .01);
  EXPECT_EQ(fresh.source_of, "mine");
}

TEST(Calibration, OfAnotherReleaseComesFirstAndTheEarlierOneStandsInForTheRest) {
  SweepFile sweep = *parse_sweep_csv("s.csv", clean_sweep());
  for (SweepPoint& point : sweep.points) {
    point.version = "2.28.3";
  }
  const Result<CalibrationOutput> output = calibrated({*find_machine("dgx_a100"), sweep.points, "mine"});
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(default_version(output->machine, "nccl"), "2.28.3");
  EXPECT_EQ(a100_time(output->machine, "2.28.3", CommKind::all_gather).source_of, "mine");
  const CollectiveTime earlier = a100_time(output->machine, "2.28.3", CommKind::all_reduce);
  EXPECT_EQ(earlier.source, TimeSource::borrowed);
  EXPECT_EQ(earlier.source_of, "nccl 2.27.3");
  EXPECT_EQ(a100_time(output->machine, "2.27.3", CommKind::all_gather).source_of.substr(0, 9), "ai-dynamo");
}

// GB200, all_reduce of 1 MiB on 4 ranks: medians of four runs, 19.53 us of fp16 and 19.885 of int8.
TEST(Calibration, WithTheShapeOfAnotherMachineKeepsWhatWasMeasured) {
  SweepFile sweep = *parse_sweep_csv("s.csv", clean_sweep());
  for (SweepPoint& point : sweep.points) {
    point.version = "2.29.2";
  }
  const Machine shape = *find_machine("hgx_b200");
  const Result<CalibrationOutput> output =
      calibrated({*find_machine("gb200_nvl72"), sweep.points, "mine", "", &shape});
  ASSERT_TRUE(output) << output.error().message;
  const auto time_of = [&](CommKind op, std::int64_t bytes, std::int64_t ranks) {
    const CostQuery query{&output->machine,
                          nullptr,
                          {"nccl", "2.29.2", {}, {}},
                          {op, Bytes{bytes}, DType::fp16, {ranks, 1}},
                          {}};
    return collective_time(query).value_or(CollectiveTime{});
  };
  EXPECT_NEAR(time_of(CommKind::all_reduce, 1 << 20, 4).us, std::sqrt(19.53 * 19.885), .01);
  EXPECT_EQ(time_of(CommKind::all_reduce, 1 << 20, 4).source, TimeSource::measured);
  EXPECT_NEAR(time_of(CommKind::all_gather, 1 << 21, 8).us, 10 + 2097152 * 7. / 8 / 200e3, .01);
  EXPECT_EQ(time_of(CommKind::all_gather, 1 << 21, 8).source_of, "mine");
}

TEST(NeverFalling, PoolsNeighboursToTheirMedian) {
  EXPECT_EQ(never_falling({{1, 1}, {3, 1}, {2, 1}, {4, 1}}), (std::vector<double>{1, 2.5, 2.5, 4}));
  EXPECT_EQ(never_falling({{9, 1}, {2, 5}, {3, 1}}), (std::vector<double>{2, 2, 3}));
  EXPECT_TRUE(never_falling({}).empty());
}

TEST(Sweep, WithCountsWhoseProductsAreNoNumbersIsRefused) {
  const std::string header = "machine,library,op,ranks,nodes,ranks_per_node,dtype,bytes,time_us,a,b,c\n";
  EXPECT_EQ(parse_sweep_csv("s.csv", header + "X,NCCL,all_reduce,,1000000000000,8,fp16,1024,20,,,x\n")
                .error()
                .message,
            "s.csv:2: nodes is 1000000000000; it must be a whole number up to 1e+06");
}

}  // namespace
}  // namespace commlens
