// Pendulum learned by RLtools' PPO on one core: trains, evaluates, and prints one JSON object.
//
//   ppo_rltools --seed 1 --updates 74 --eval-episodes 1000 --solved-at 1e9
//       trains for 74 updates
//   ppo_rltools --seed 1 --updates 296 --eval-episodes 100 --solved-at -200 --eval-interval 5
//       ends when a mean of 100 greedy episodes reaches -200, tried by the rule of worker.py's Attempts
//
// ppo_rltools.py compiles it, with the hyperparameters as macros. For bisect_pendulum.py it works in operant's way where
// --clipped-cost, --own-steps or --orthogonal is 1, and takes --epsilon-sqrt and --initial-std.

// The order of these matters. Without nn/operations_cpu_mux.h after Adam's instances and before the layers, the layers
// call no BLAS.
#include <rl_tools/operations/cpu_mux.h>
#include <rl_tools/nn/optimizers/adam/instance/operations_generic.h>
#include <rl_tools/nn/operations_cpu_mux.h>
#include <rl_tools/nn/layers/standardize/operations_generic.h>
#include <rl_tools/nn_models/mlp_unconditional_stddev/operations_generic.h>
#include <rl_tools/nn_models/sequential/operations_generic.h>
#include <rl_tools/nn/optimizers/adam/operations_generic.h>
#include <rl_tools/rl/environments/pendulum/operations_cpu.h>
#include <rl_tools/rl/algorithms/ppo/loop/core/config.h>
#include <rl_tools/rl/algorithms/ppo/loop/core/operations_generic.h>
#include <rl_tools/rl/utils/evaluation/operations_generic.h>

#include "kernels_rltools.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace rlt = rl_tools;
namespace ppo = rlt::rl::algorithms::ppo;
namespace evaluation = rlt::rl::utils::evaluation;

using Device = rlt::devices::DEVICE_FACTORY<>;
using Count = Device::index_t;
using Types = rlt::numeric_types::Policy<float>;
using Random = Device::SPEC::RANDOM::ENGINE<>;
using Pendulum = rlt::rl::environments::Pendulum<rlt::rl::environments::pendulum::Specification<float, Count>>;

static_assert(PEER_VF_COEF == 1 && PEER_MAX_GRAD_NORM >= 1e30,
              "RLtools weights the value loss by 1 and does not clip gradients");

static bool clipped_cost = false, own_steps = false;

// More special than RLtools' own, these take precedence; without the options they compute the same.
namespace rl_tools {
template <typename SPEC, typename STATE, typename ACTION, typename RNG>
typename SPEC::T reward(
    Device& device, const rl::environments::Pendulum<SPEC>&, typename rl::environments::Pendulum<SPEC>::Parameters&,
    const rl::environments::pendulum::State<STATE>& state, const Matrix<ACTION>& action,
    const rl::environments::pendulum::State<STATE>&, RNG&
) {
    const float angle = rl::environments::pendulum::angle_normalize(device.math, state.theta);
    const float chosen = get(action, 0, 0), torque = 2 * (clipped_cost ? math::clamp(device.math, chosen, -1.0f, 1.0f) : chosen);
    return -(angle * angle + 0.1 * state.theta_dot * state.theta_dot + 0.001 * (torque * torque));
}

// Both networks are given to one optimizer in turn, so that each has half of its steps.
namespace nn::optimizers {
template <typename SPEC>
void _step(Device& device, Adam<SPEC>& optimizer) {
    const Count age = get(device, optimizer.age, 0), steps = own_steps ? (age + 1) / 2 : age;
    auto correction = [&](float beta) { return 1 / (1 - math::pow(device.math, beta, float(steps))); };
    set(device, optimizer.first_order_moment_bias_correction, correction(optimizer.parameters.beta_1), 0);
    set(device, optimizer.second_order_moment_bias_correction, correction(optimizer.parameters.beta_2), 0);
    set(device, optimizer.age, age + 1, 0);
}
}
}

struct Settings : ppo::loop::core::DefaultParameters<Types, Count, Pendulum> {
    static constexpr Count N_ENVIRONMENTS = PEER_NUM_ENVS;
    static constexpr Count ON_POLICY_RUNNER_STEPS_PER_ENV = PEER_NUM_STEPS;
    static constexpr Count BATCH_SIZE = PEER_NUM_ENVS * PEER_NUM_STEPS / PEER_NUM_MINIBATCHES;
    static constexpr Count EPISODE_STEP_LIMIT = Pendulum::EPISODE_STEP_LIMIT;
    // Three layers: 64, 64 and the output.
    static constexpr Count ACTOR_NUM_LAYERS = 3, ACTOR_HIDDEN_DIM = 64;
    static constexpr Count CRITIC_NUM_LAYERS = 3, CRITIC_HIDDEN_DIM = 64;
    struct OPTIMIZER_PARAMETERS : rlt::nn::optimizers::adam::DEFAULT_PARAMETERS_PYTORCH<Types> {
        static constexpr float ALPHA = PEER_LEARNING_RATE;
    };
    struct PPO_PARAMETERS : ppo::DefaultParameters<Types, Count, BATCH_SIZE> {
        static constexpr Count N_EPOCHS = PEER_UPDATE_EPOCHS;
        static constexpr float GAMMA = PEER_GAMMA, LAMBDA = PEER_GAE_LAMBDA;
        static constexpr float EPSILON_CLIP = PEER_CLIP_COEF;
        static constexpr float ACTION_ENTROPY_COEFFICIENT = PEER_ENT_COEF;
        static constexpr float INITIAL_ACTION_STD = 2.0f;
    };
};
using Config = ppo::loop::core::Config<Types, Count, Random, Pendulum, Settings>;
using Loop = Config::State<Config>;

// Orthogonal weights times a gain, and biases of 0.
template <typename LAYER>
static void orthogonal(Device& device, LAYER& layer, double gain, std::mt19937& random) {
    auto weights = rlt::matrix_view(device, layer.weights.parameters);
    rlt::set_all(device, layer.biases.parameters, 0);
    constexpr Count OUT = decltype(weights)::ROWS, IN = decltype(weights)::COLS, LONG = OUT < IN ? IN : OUT;
    std::normal_distribution<double> normal;
    std::vector<std::vector<double>> rows(OUT < IN ? OUT : IN, std::vector<double>(LONG));
    for (size_t i = 0; i < rows.size(); i++) {
        for (double& each : rows[i]) each = normal(random);
        for (size_t j = 0; j <= i; j++) {
            const double product = std::inner_product(rows[i].begin(), rows[i].end(), rows[j].begin(), 0.0);
            for (Count k = 0; k < LONG; k++) rows[i][k] = j < i ? rows[i][k] - product * rows[j][k] : rows[i][k] / std::sqrt(product);
        }
    }
    for (Count out = 0; out < OUT; out++)
        for (Count in = 0; in < IN; in++) rlt::set(weights, out, in, float(gain * (OUT < IN ? rows[out][in] : rows[in][out])));
}

template <typename MODEL>
static void orthogonal_model(Device& device, MODEL& model, double last, std::mt19937& random) {
    orthogonal(device, model.input_layer, std::sqrt(2.0), random);
    orthogonal(device, model.hidden_layers[0], std::sqrt(2.0), random);
    orthogonal(device, model.output_layer, last, random);
}

// Mean return of greedy episodes.
template <Count EPISODES>
static double greedy_return(Device& device, Loop& loop, Random& random) {
    using Episodes = evaluation::Specification<Types, Count, Pendulum, EPISODES, Pendulum::EPISODE_STEP_LIMIT>;
    evaluation::Result<Episodes> result;
    rlt::Mode<rlt::mode::Evaluation<>> mode;
    rlt::evaluate(device, loop.envs[0], loop.ui, loop.ppo.actor, result, random, mode);
    return result.returns_mean;
}

// Whether the training mean suggests that an evaluation will reach the threshold: Attempts in worker.py.
class Attempts {
    static constexpr size_t WINDOW = 100;
    const double threshold;
    const long interval;
    std::deque<double> window;
    std::optional<double> first;
    std::optional<long> last;
    double running[Settings::N_ENVIRONMENTS] = {};

    double mean() const { return std::accumulate(window.begin(), window.end(), 0.0) / double(window.size()); }

public:
    Attempts(double threshold, long interval) : threshold(threshold), interval(interval) {}

    // Adds the episodes that ended in the last update.
    void record(Loop& loop) {
        auto& data = loop.on_policy_runner_dataset;
        for (Count row = 0; row < Settings::N_ENVIRONMENTS * Settings::ON_POLICY_RUNNER_STEPS_PER_ENV; row++) {
            double& sum = running[row % Settings::N_ENVIRONMENTS];
            sum += rlt::get(data.rewards, row, 0);
            if (rlt::get(data.truncated, row, 0)) {
                window.push_back(sum);
                sum = 0.0;
            }
        }
        while (window.size() > WINDOW) window.pop_front();
        if (!first && !window.empty()) first = mean();
    }

    // Whether to evaluate after this update, which is noted as an attempt if so.
    bool due(long update) {
        if (!first || mean() < *first + (threshold - *first) / 2 || (last && update < *last + interval)) return false;
        last = update;
        return true;
    }
};

// Trains until an evaluation reaches the threshold or there have been enough updates; then evaluates.
template <Count EPISODES>
static void run(std::map<std::string, double>& options) {
    Device device;
    Loop loop;
    Random random;
    rlt::init(device);
    rlt::malloc(device, loop);
    rlt::init(device, loop, Count(options["--seed"]));
    rlt::init(device, random, Count(options["--seed"]) + 1000);
    auto& actor = rlt::get_last_layer(loop.ppo.actor);
    if (options["--orthogonal"] != 0) {
        std::mt19937 weights(options["--seed"]);
        orthogonal_model(device, actor, 0.01, weights);
        orthogonal_model(device, rlt::get_last_layer(loop.ppo.critic), 1.0, weights);
    }
    if (options.count("--initial-std")) rlt::set(device, actor.log_std.parameters, std::log(options["--initial-std"]), 0);
    if (options.count("--epsilon-sqrt")) loop.actor_optimizer.parameters.epsilon_sqrt = options["--epsilon-sqrt"];
    const double threshold = options["--solved-at"];
    const bool ends_solved = options.count("--eval-interval") > 0;
    Attempts attempts(threshold, long(options["--eval-interval"]));
    bool solved = false;
    long update = 0;
    while (!solved && update < long(options["--updates"])) {
        rlt::step(device, loop);
        update++;
        attempts.record(loop);
        solved = attempts.due(update) && greedy_return<EPISODES>(device, loop, random) >= threshold;
    }
    const double mean = greedy_return<EPISODES>(device, loop, random);
    const Count steps = Count(update) * Settings::N_ENVIRONMENTS * Settings::ON_POLICY_RUNNER_STEPS_PER_ENV;
    std::printf("{\"env_steps\": %zu, \"eval_return_mean\": %.3f, ", size_t(steps), mean);
    if (ends_solved) std::printf("\"solved\": %s, ", solved ? "true" : "false");
    std::printf("\"settings\": {\"threads\": 1, \"kernels\": \"%s\"}}\n", kernels().c_str());
    rlt::free(device, loop);
}

int main(int count, char** words) {
    std::map<std::string, double> options;
    for (int i = 1; i + 1 < count; i += 2) options[words[i]] = std::atof(words[i + 1]);
    clipped_cost = options["--clipped-cost"] != 0;
    own_steps = options["--own-steps"] != 0;
    if (options["--eval-episodes"] == 1000) {
        run<1000>(options);
    } else if (options["--eval-episodes"] == 100) {
        run<100>(options);
    } else {
        std::fprintf(stderr, "error: --eval-episodes is 100 or 1000\n");
        return 2;
    }
}
