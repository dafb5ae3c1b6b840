// The kernels that the BLAS library has chosen for this processor.
#pragma once

#include <string>

#ifdef RL_TOOLS_BACKEND_ENABLE_MKL
inline std::string kernels() {
    MKLVersion version;
    mkl_get_version(&version);
    return version.Processor;
}
#else
extern "C" char* openblas_get_corename();
inline std::string kernels() { return openblas_get_corename(); }
#endif
