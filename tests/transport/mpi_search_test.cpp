// SPDX-License-Identifier: Apache-2.0
//
// The last place where the MPI plugin is looked for, the loader's own search: this program's search
// path has a plugin whose MPI is missing.

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::transport {
namespace {

TEST(MpiPluginSearch, AMissingMpiIsToldWhereTheLoaderFindsThePlugin) {
  ::setenv("ZIPCCL_PLUGIN_DIR", "/no/such/folder", 1);
  try {
    static_cast<void>(loadMpiTransport());
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystemError);
    EXPECT_NE(error.message().find("the MPI plugin libzipccl_mpi.so cannot be loaded: "
                                   "libzipccl_absent_mpi.so"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace zipccl::transport
