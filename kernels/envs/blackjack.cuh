// blackjack: draw cards up to 21 against a dealer; +1 for a win, -1 for a loss.
// Emitted from the environment's rules by `operant emit`; do not edit.
#pragma once

constexpr unsigned ENV_TIME_LIMIT = 20u;
constexpr unsigned ENV_OBS = 45u;         // numbers the policy sees
constexpr unsigned ENV_OBS_WORDS = 1u;   // words they are stored in
constexpr unsigned ENV_STATE_WORDS = 7u;   // words of a state
constexpr unsigned ENV_ACTIONS = 2u;   // logits
constexpr unsigned ENV_COMPONENTS = 1u;   // numbers that name an action
#define ENV_DISCRETE 1   // choices, or real numbers between bounds
#define ENV_MASKED 0   // whether env_legal forbids choices
using EnvAction = unsigned;
__device__ __forceinline__ constexpr unsigned env_choices(unsigned) { return 2u; }

struct EnvState {
    unsigned player_sum;
    bool player_ace;
    unsigned player_cards;
    unsigned open;
    unsigned dealer_sum;
    bool dealer_ace;
    unsigned dealer_cards;
};

__device__ __forceinline__ void env_load(const unsigned* words, unsigned stride, EnvState& state) {
    state.player_sum = words[0];
    state.player_ace = words[1u * stride] != 0u;
    state.player_cards = words[2u * stride];
    state.open = words[3u * stride];
    state.dealer_sum = words[4u * stride];
    state.dealer_ace = words[5u * stride] != 0u;
    state.dealer_cards = words[6u * stride];
}

__device__ __forceinline__ void env_store(const EnvState& state, unsigned* words, unsigned stride) {
    words[0] = state.player_sum;
    words[1u * stride] = state.player_ace ? 1u : 0u;
    words[2u * stride] = state.player_cards;
    words[3u * stride] = state.open;
    words[4u * stride] = state.dealer_sum;
    words[5u * stride] = state.dealer_ace ? 1u : 0u;
    words[6u * stride] = state.dealer_cards;
}

__device__ __forceinline__ void env_reset(
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next) {
    unsigned v0_0 = environment;
    unsigned v0_1 = step_low;
    unsigned v0_2 = step_high;
    unsigned v0_3 = (purpose << 24u) | 0u;
    unsigned v1_0 = seed_low;
    unsigned v1_1 = seed_high;
    #pragma unroll
    for (unsigned i = 0u; i < 10u; ++i) {
        const unsigned v0_0_before = v0_0;
        const unsigned v0_1_before = v0_1;
        const unsigned v0_2_before = v0_2;
        const unsigned v0_3_before = v0_3;
        const unsigned v1_0_before = v1_0;
        const unsigned v1_1_before = v1_1;
        v0_0 = (__umulhi(0xcd9e8d57u, v0_2_before) ^ v0_1_before) ^ v1_0_before;
        v0_1 = 0xcd9e8d57u * v0_2_before;
        v0_2 = (__umulhi(0xd2511f53u, v0_0_before) ^ v0_3_before) ^ v1_1_before;
        v0_3 = 0xd2511f53u * v0_0_before;
        v1_0 = v1_0_before + 0x9e3779b9u;
        v1_1 = v1_1_before + 0xbb67ae85u;
    }
    const unsigned t1 = __umulhi(v0_0, 13u) + 1u;
    const unsigned card = (t1 < 10u) ? t1 : 10u;
    const unsigned t2 = __umulhi(v0_1, 13u) + 1u;
    const unsigned card_2 = (t2 < 10u) ? t2 : 10u;
    const unsigned t3 = __umulhi(v0_2, 13u) + 1u;
    const unsigned card_3 = (t3 < 10u) ? t3 : 10u;
    const unsigned t4 = __umulhi(v0_3, 13u) + 1u;
    const unsigned card_4 = (t4 < 10u) ? t4 : 10u;
    next.player_sum = (0u + card_3) + card_4;
    next.player_ace = (false || (card_3 == 1u)) || (card_4 == 1u);
    next.player_cards = 2u;
    next.open = card;
    next.dealer_sum = (0u + card) + card_2;
    next.dealer_ace = (false || (card == 1u)) || (card_2 == 1u);
    next.dealer_cards = 2u;
}

__device__ __forceinline__ void env_step(
    const EnvState& state, const unsigned* action,
    unsigned seed_low, unsigned seed_high, unsigned environment, unsigned step_low, unsigned step_high, unsigned purpose,
    EnvState& next, float& reward, bool& terminated) {
    const unsigned t1 = purpose << 24u;
    const bool hits = action[0] == 1u;
    unsigned sum = state.player_sum;
    bool ace = state.player_ace;
    unsigned cards = state.player_cards;
    if (hits) {
        unsigned v0_0 = environment;
        unsigned v0_1 = step_low;
        unsigned v0_2 = step_high;
        unsigned v0_3 = t1 | 0u;
        unsigned v1_0 = seed_low;
        unsigned v1_1 = seed_high;
        #pragma unroll
        for (unsigned i = 0u; i < 10u; ++i) {
            const unsigned v0_0_before = v0_0;
            const unsigned v0_1_before = v0_1;
            const unsigned v0_2_before = v0_2;
            const unsigned v0_3_before = v0_3;
            const unsigned v1_0_before = v1_0;
            const unsigned v1_1_before = v1_1;
            v0_0 = (__umulhi(0xcd9e8d57u, v0_2_before) ^ v0_1_before) ^ v1_0_before;
            v0_1 = 0xcd9e8d57u * v0_2_before;
            v0_2 = (__umulhi(0xd2511f53u, v0_0_before) ^ v0_3_before) ^ v1_1_before;
            v0_3 = 0xd2511f53u * v0_0_before;
            v1_0 = v1_0_before + 0x9e3779b9u;
            v1_1 = v1_1_before + 0xbb67ae85u;
        }
        const unsigned t2 = __umulhi(v0_0, 13u) + 1u;
        const unsigned card = (t2 < 10u) ? t2 : 10u;
        sum = state.player_sum + card;
        ace = state.player_ace || (card == 1u);
        cards = state.player_cards + 1u;
    }
    const bool bust = 21u < sum;
    const bool t3 = !hits;
    unsigned sum_2 = state.dealer_sum;
    bool ace_2 = state.dealer_ace;
    unsigned cards_2 = state.dealer_cards;
    if (t3) {
        unsigned sum_3 = state.dealer_sum;
        bool ace_3 = state.dealer_ace;
        unsigned cards_3 = state.dealer_cards;
        #pragma unroll
        for (unsigned i_2 = 0u; i_2 < 10u; ++i_2) {
            const unsigned sum_3_before = sum_3;
            const bool ace_3_before = ace_3;
            const unsigned cards_3_before = cards_3;
            const bool t4 = ((ace_3_before && (!(11u < sum_3_before))) ? (sum_3_before + 10u) : sum_3_before) < 17u;
            unsigned sum_4 = sum_3_before;
            bool ace_4 = ace_3_before;
            unsigned cards_4 = cards_3_before;
            if (t4) {
                unsigned v0_0_2 = environment;
                unsigned v0_1_2 = step_low;
                unsigned v0_2_2 = step_high;
                unsigned v0_3_2 = (t1 + (i_2 * 1u)) + 1u;
                unsigned v1_0_2 = seed_low;
                unsigned v1_1_2 = seed_high;
                #pragma unroll
                for (unsigned i_3 = 0u; i_3 < 10u; ++i_3) {
                    const unsigned v0_0_2_before = v0_0_2;
                    const unsigned v0_1_2_before = v0_1_2;
                    const unsigned v0_2_2_before = v0_2_2;
                    const unsigned v0_3_2_before = v0_3_2;
                    const unsigned v1_0_2_before = v1_0_2;
                    const unsigned v1_1_2_before = v1_1_2;
                    v0_0_2 = (__umulhi(0xcd9e8d57u, v0_2_2_before) ^ v0_1_2_before) ^ v1_0_2_before;
                    v0_1_2 = 0xcd9e8d57u * v0_2_2_before;
                    v0_2_2 = (__umulhi(0xd2511f53u, v0_0_2_before) ^ v0_3_2_before) ^ v1_1_2_before;
                    v0_3_2 = 0xd2511f53u * v0_0_2_before;
                    v1_0_2 = v1_0_2_before + 0x9e3779b9u;
                    v1_1_2 = v1_1_2_before + 0xbb67ae85u;
                }
                const unsigned t5 = __umulhi(v0_0_2, 13u) + 1u;
                const unsigned card_2 = (t5 < 10u) ? t5 : 10u;
                sum_4 = sum_3_before + card_2;
                ace_4 = ace_3_before || (card_2 == 1u);
                cards_4 = cards_3_before + 1u;
            }
            sum_3 = sum_4;
            ace_3 = ace_4;
            cards_3 = cards_4;
        }
        sum_2 = sum_3;
        ace_2 = ace_3;
        cards_2 = cards_3;
    }
    const unsigned t6 = (ace_2 && (!(11u < sum_2))) ? (sum_2 + 10u) : sum_2;
    const bool t7 = 21u < t6;
    const unsigned t8 = (ace && (!(11u < sum))) ? (sum + 10u) : sum;
    const bool wins = t7 || (t6 < t8);
    const float t9 = (((cards == 2u) && (t8 == 21u)) && (!((cards_2 == 2u) && (t6 == 21u)))) ? 1.0f : (wins ? 1.0f : (((!t7) && (t6 == t8)) ? 0.0f : (-1.0f)));
    next.player_sum = sum;
    next.player_ace = ace;
    next.player_cards = cards;
    next.open = state.open;
    next.dealer_sum = sum_2;
    next.dealer_ace = ace_2;
    next.dealer_cards = cards_2;
    reward = hits ? (bust ? (-1.0f) : 0.0f) : t9;
    terminated = t3 || bust;
}

__device__ __forceinline__ void env_observe(
    const EnvState& state, unsigned* obs) {
    const bool t1 = state.player_ace && (!(11u < state.player_sum));
    const unsigned t2 = ((t1 ? (state.player_sum + 10u) : state.player_sum) | (state.open << 8u)) | (t1 ? 0x00010000u : 0u);
    obs[0] = t2;
}

#define ENV_PACKED 1   // env_input computes the network input
#define ENV_INPUT_BITS 1   // bits, or floats by their bits
constexpr unsigned ENV_INPUT_WORDS = 2u;
__device__ __forceinline__ constexpr unsigned input_offset_0(unsigned k) { return k == 0u ? 0u : k == 1u ? 32u : 43u; }
__device__ __forceinline__ constexpr unsigned input_place_0(unsigned k) { return k < 32u ? 0u : k < 43u ? 1u : 2u; }
__device__ __forceinline__ void env_input(const unsigned* obs, unsigned* input) {
    #pragma unroll
    for (unsigned k = 0u; k < ENV_INPUT_WORDS; ++k) input[k] = 0u;
    #pragma unroll
    for (unsigned i = 0u; i < 3u; ++i) {
        const unsigned value = obs[0u + i / 4u] >> i % 4u * 8u & 0xffu;
        const unsigned first = 0u + i / 3u * 45u + input_offset_0(i % 3u);
        const unsigned bit = first + value;
        input[bit / 32u] |= 1u << bit % 32u;
    }
}

__device__ __forceinline__ float env_feature(const float* obs, unsigned k) {
    if (k < 45u) {
        const unsigned item = (k - 0u) / 45u * 3u + input_place_0((k - 0u) % 45u);
        const unsigned value = __float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu;
        return value == k - (0u + item / 3u * 45u + input_offset_0(item % 3u)) ? 1.0f : 0.0f;
    }
    return 0.0f;
}

__device__ __forceinline__ unsigned env_index(const float* obs, unsigned i) {
    if (i < 3u) {
        const unsigned item = i - 0u;
        return (__float_as_uint(obs[0u + item / 4u]) >> item % 4u * 8u & 0xffu) + input_offset_0(item % 3u);
    }
    return 0u;
}
