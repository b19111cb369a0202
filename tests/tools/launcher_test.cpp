// SPDX-License-Identifier: Apache-2.0
//
// Which rank a process is, by what launchers leave in the environment.

#include "perf_nccl/launcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<LaunchedRank> launched(const Variables& variables, std::int64_t parent = 1) {
  return launchedRank(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      parent);
}

TEST(Launcher, WithoutOneThereIsNoRank) {
  EXPECT_FALSE(launched({}));
  EXPECT_FALSE(launched({{"WORLD_SIZE", "4"}, {"RANK", ""}}));
  // A batch script of Slurm is no rank.
  EXPECT_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}));
}

TEST(Launcher, Torchrun) {
  Variables variables = {{"RANK", "9"},
                         {"WORLD_SIZE", "16"},
                         {"LOCAL_RANK", "1"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29500"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "2"}};
  const std::optional<LaunchedRank> rank = launched(variables);
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->launcher, "torchrun");
  EXPECT_EQ(rank->rank, 9);
  EXPECT_EQ(rank->rankCount, 16);
  EXPECT_EQ(rank->localRank, 1);
  EXPECT_EQ(rank->root, (Endpoint{"node0", 29500}));
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(launched(variables)->root, (Endpoint{"node0", 29501}));
}

TEST(Launcher, OpenMpiOnOneHostMeetsThere) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "4711.1"}};
  const std::optional<LaunchedRank> rank = launched(variables);
  ASSERT_TRUE(rank && rank->root);
  EXPECT_EQ(rank->launcher, "mpirun");
  EXPECT_EQ(rank->rank, 3);
  EXPECT_EQ(rank->root->host, "127.0.0.1");
  EXPECT_GE(rank->root->port, 20'000);
  // All ranks of a job find the same port, and another job most likely another one.
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(launched(variables, 2)->root, rank->root);
  variables["PMIX_NAMESPACE"] = "4712.1";
  EXPECT_NE(launched(variables)->root, rank->root);
}

TEST(Launcher, OpenMpiOnSeveralHostsMustBeTold) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_FALSE(launched(variables)->root);
  EXPECT_EQ(launched(variables)->localRank, 1);
  variables["MASTER_ADDR"] = "10.0.0.1";
  EXPECT_EQ(launched(variables)->root->host, "10.0.0.1");
}

TEST(Launcher, Mpich) {
  const Variables variables = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const std::optional<LaunchedRank> rank = launched(variables, 77);
  ASSERT_TRUE(rank && rank->root);
  EXPECT_EQ(rank->rank, 1);
  // No number of a job: processes of one launcher share their parent.
  EXPECT_EQ(launched(variables, 77)->root, rank->root);
  EXPECT_NE(launched(variables, 78)->root, rank->root);
}

TEST(Launcher, Slurm) {
  Variables variables = {
      {"SLURM_PROCID", "8"},         {"SLURM_STEP_NUM_TASKS", "16"},        {"SLURM_LOCALID", "0"},
      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "gpu[07-08]"}, {"SLURM_JOB_ID", "12"}};
  const std::optional<LaunchedRank> rank = launched(variables);
  ASSERT_TRUE(rank && rank->root);
  EXPECT_EQ(rank->launcher, "srun");
  EXPECT_EQ(rank->rank, 8);
  EXPECT_EQ(rank->localRank, 0);
  EXPECT_EQ(rank->root->host, "gpu07");
  variables["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(launched(variables)->root->host, "127.0.0.1");
}

TEST(Launcher, FirstHostOfAList) {
  EXPECT_EQ(firstHost("node0"), "node0");
  EXPECT_EQ(firstHost("node0,node1"), "node0");
  EXPECT_EQ(firstHost("node[0,4-7]"), "node0");
  EXPECT_EQ(firstHost("node[012-015],gpu1"), "node012");
  EXPECT_EQ(firstHost("rack[1-2]-a,b"), "rack1-a");
}

TEST(Launcher, WhatIsNoNumberIsRefused) {
  EXPECT_THROW(static_cast<void>(launched({{"RANK", "x"}, {"WORLD_SIZE", "2"}})), UsageError);
  EXPECT_THROW(static_cast<void>(launched({{"RANK", "2"}, {"WORLD_SIZE", "2"}})), UsageError);
  EXPECT_THROW(
      static_cast<void>(launched({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "100000"}})),
      UsageError);
}

TEST(Launcher, Endpoints) {
  EXPECT_EQ(parseEndpoint("host0:1234"), (Endpoint{"host0", 1234}));
  EXPECT_EQ(parseEndpoint("[fe80::1]:80"), (Endpoint{"fe80::1", 80}));
  for (const char* wrong : {"host0", ":80", "host0:", "host0:0", "host0:70000", "host0:8o"}) {
    EXPECT_THROW(static_cast<void>(parseEndpoint(wrong)), UsageError) << wrong;
  }
}

}  // namespace
}  // namespace zipccl::tools::perf_nccl
