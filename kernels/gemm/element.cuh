// The element type of matrix products: f32, or bf16 with PRECISION BF16.
#pragma once

#if PRECISION == 2
typedef unsigned short Element;
#else
typedef float Element;
#endif

__device__ __forceinline__ Element to_element(float x) {
#if PRECISION == 2
    return (Element)pack_bf16(x, 0.0f);
#else
    return x;
#endif
}

__device__ __forceinline__ float from_element(Element x) {
#if PRECISION == 2
    return __uint_as_float((unsigned)x << 16u);
#else
    return x;
#endif
}

__device__ __forceinline__ float read_element(const void* from, u64 at) { return from_element(((const Element*)from)[at]); }

__device__ __forceinline__ void write_element(void* to, u64 at, float value) { ((Element*)to)[at] = to_element(value); }
