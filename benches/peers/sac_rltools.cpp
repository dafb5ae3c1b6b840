// Pendulum learned by RLtools' SAC on one core: trains, evaluates 1,000 greedy episodes, and prints one JSON object.
//
//   sac_rltools --seed 1 --updates 20000
//
// An update is a step of each of PEER_NUM_ENVS environments and one minibatch. sac_rltools.py compiles it, with the hyperparameters as macros.

// The order of these matters: nn/operations_cpu_mux.h before the layers, or they call no BLAS.
#include <rl_tools/operations/cpu_mux.h>
#include <rl_tools/nn/optimizers/adam/instance/operations_generic.h>
#include <rl_tools/nn/operations_cpu_mux.h>
#include <rl_tools/nn/layers/sample_and_squash/operations_generic.h>
#include <rl_tools/nn_models/mlp/operations_generic.h>
#include <rl_tools/nn_models/random_uniform/operations_generic.h>
#include <rl_tools/nn_models/sequential/operations_generic.h>
#include <rl_tools/nn/optimizers/adam/operations_generic.h>
#include <rl_tools/rl/environments/pendulum/operations_cpu.h>
#include <rl_tools/rl/algorithms/sac/loop/core/config.h>
#include <rl_tools/rl/algorithms/sac/loop/core/operations_generic.h>
#include <rl_tools/rl/utils/evaluation/operations_generic.h>

#include "kernels_rltools.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace rlt = rl_tools;
namespace sac = rlt::rl::algorithms::sac;
namespace evaluation = rlt::rl::utils::evaluation;

using Device = rlt::devices::DEVICE_FACTORY<>;
using Count = Device::index_t;
using Types = rlt::numeric_types::Policy<float>;
using Random = Device::SPEC::RANDOM::ENGINE<>;
using Pendulum = rlt::rl::environments::Pendulum<rlt::rl::environments::pendulum::Specification<float, Count>>;

struct Settings : sac::loop::core::DefaultParameters<Types, Count, Pendulum> {
    struct SAC_PARAMETERS : sac::DefaultParameters<Types, Count, Pendulum::ACTION_DIM> {
        static constexpr Count ACTOR_BATCH_SIZE = PEER_BATCH_SIZE, CRITIC_BATCH_SIZE = PEER_BATCH_SIZE;
        static constexpr float GAMMA = PEER_GAMMA, ALPHA = PEER_ALPHA;
    };
    static constexpr Count N_ENVIRONMENTS = PEER_NUM_ENVS;
    static constexpr Count STEP_LIMIT = 1000000, REPLAY_BUFFER_CAP = PEER_BUFFER_SIZE / PEER_NUM_ENVS;
    static constexpr Count N_WARMUP_STEPS = PEER_LEARNING_STARTS / PEER_NUM_ENVS;
    static constexpr Count N_WARMUP_STEPS_CRITIC = N_WARMUP_STEPS, N_WARMUP_STEPS_ACTOR = N_WARMUP_STEPS;
    // Three layers: 64, 64 and the output.
    static constexpr Count ACTOR_NUM_LAYERS = 3, ACTOR_HIDDEN_DIM = 64;
    static constexpr Count CRITIC_NUM_LAYERS = 3, CRITIC_HIDDEN_DIM = 64;
    struct OPTIMIZER : rlt::nn::optimizers::adam::DEFAULT_PARAMETERS_TENSORFLOW<Types> {
        static constexpr float ALPHA = PEER_LEARNING_RATE, EPSILON = PEER_ADAM_EPS;
    };
    using ACTOR_OPTIMIZER_PARAMETERS = OPTIMIZER;
    using CRITIC_OPTIMIZER_PARAMETERS = OPTIMIZER;
    using ALPHA_OPTIMIZER_PARAMETERS = OPTIMIZER;
};
using Config = sac::loop::core::Config<Types, Count, Random, Pendulum, Settings>;
using Loop = Config::State<Config>;

int main(int count, char** words) {
    std::map<std::string, double> options;
    for (int i = 1; i + 1 < count; i += 2) options[words[i]] = std::atof(words[i + 1]);
    Device device;
    Loop loop;
    Random random;
    rlt::init(device);
    rlt::malloc(device, loop);
    rlt::init(device, loop, Count(options["--seed"]));
    rlt::init(device, random, Count(options["--seed"]) + 1000);
    const long updates = long(options["--updates"]);
    for (long update = 0; update < updates; update++) rlt::step(device, loop);
    using Episodes = evaluation::Specification<Types, Count, Pendulum, 1000, Pendulum::EPISODE_STEP_LIMIT>;
    evaluation::Result<Episodes> result;
    rlt::Mode<rlt::mode::Evaluation<>> mode;
    rlt::rl::environments::DummyUI ui;
    rlt::evaluate(device, loop.envs[0], ui, rlt::get_actor(loop), result, random, mode);
    std::printf("{\"env_steps\": %ld, \"eval_return_mean\": %.3f, ", updates * PEER_NUM_ENVS, double(result.returns_mean));
    std::printf("\"settings\": {\"threads\": 1, \"kernels\": \"%s\"}}\n", kernels().c_str());
    rlt::free(device, loop);
}
