// SPDX-License-Identifier: Apache-2.0
//
// The collectives of the C API: what C can get wrong is checked here, the rest where it is done.

#include "base/error.hpp"
#include "capi/comm.hpp"
#include "collectives/datatype.hpp"

namespace zipccl::capi {
namespace {

using collectives::Datatype;

static_assert(static_cast<int>(Datatype::kInt8) == zipcclInt8);
static_assert(static_cast<int>(Datatype::kUint8) == zipcclUint8);
static_assert(static_cast<int>(Datatype::kInt32) == zipcclInt32);
static_assert(static_cast<int>(Datatype::kUint32) == zipcclUint32);
static_assert(static_cast<int>(Datatype::kInt64) == zipcclInt64);
static_assert(static_cast<int>(Datatype::kUint64) == zipcclUint64);
static_assert(static_cast<int>(Datatype::kFloat16) == zipcclFloat16);
static_assert(static_cast<int>(Datatype::kFloat32) == zipcclFloat32);
static_assert(static_cast<int>(Datatype::kFloat64) == zipcclFloat64);
static_assert(static_cast<int>(Datatype::kBfloat16) == zipcclBfloat16);
static_assert(static_cast<int>(Datatype::kFloat8e4m3) == zipcclFloat8e4m3);
static_assert(static_cast<int>(Datatype::kFloat8e5m2) == zipcclFloat8e5m2);

Datatype toDatatype(zipcclDataType_t datatype) {
  const int value = static_cast<int>(datatype);
  expects(value >= 0 && value < zipcclNumTypes, "datatype is ", value, "; 0 to ",
          zipcclNumTypes - 1, " are known");
  return static_cast<Datatype>(value);
}

void checkStream(zipcclStream_t stream) {
  expects(stream == nullptr, "stream is not NULL, but this communicator works on host memory");
}

}  // namespace
}  // namespace zipccl::capi

zipcclResult_t zipcclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                               zipcclDataType_t datatype, zipcclComm_t comm,
                               zipcclStream_t stream) {
  return zipccl::capi::guarded(__func__, comm, [&] {
    zipccl::collectives::Communicator& communicator = zipccl::capi::communicatorOf(comm);
    zipccl::capi::checkStream(stream);
    communicator.allGather(sendbuff, recvbuff, sendcount, zipccl::capi::toDatatype(datatype));
  });
}
