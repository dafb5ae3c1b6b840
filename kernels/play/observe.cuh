// An environment's observation as words: numbers by their bits, or 32 bits to a word.
#pragma once

__device__ __forceinline__ void observe_words(const EnvState& state, unsigned* words) {
#if OBS_BITS
    env_observe(state, words);
#else
    float obs[ENV_OBS_WORDS];
    env_observe(state, obs);
#pragma unroll
    for (unsigned word = 0u; word < ENV_OBS_WORDS; ++word) words[word] = __float_as_uint(obs[word]);
#endif
}
