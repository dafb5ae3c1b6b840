//! The table of metrics. One row per metric: name, unit, kind, group, meaning, and its short name where a monitor shows it among the
//! losses; everything else is generated from it.

use crate::metric::{MAX_ENV_METRICS, Metric, MetricKind, metrics};

metrics! {
    time                "s"       Counter charts             "Wall time of training, the parts before a resume included.";
    update              "1"       Counter charts             "Updates finished.";
    env_steps           "steps"   Counter charts             "Environment steps taken, over all environments.";
    sps                 "steps/s" Gauge   charts             "Environment steps per second over the last update.";
    sps_average         "steps/s" Gauge   charts             "Environment steps per second since this process began to train.";
    episodes            "1"       Counter charts             "Episodes ended.";
    episodic_return     "1"       Gauge   charts             "Mean undiscounted return of the episodes that ended in this update.";
    episodic_return_min "1"       Gauge   charts             "Least return of those episodes.";
    episodic_return_max "1"       Gauge   charts             "Greatest return of those episodes.";
    episodic_return_std "1"       Gauge   charts             "Standard deviation of the returns of those episodes.";
    episodic_length     "steps"   Gauge   charts             "Mean length of those episodes.";
    intrinsic_reward    "1"       Gauge   charts             "Mean reward for exploring of this update's steps, which returns leave out; empty with `intrinsic = \"none\"`.";
    eval_return         "1"       Gauge   charts             "Mean undiscounted return of the greedy evaluation after this update.";
    eval_return_std     "1"       Gauge   charts             "Standard deviation of the returns of that evaluation.";
    learning_rate       "1"       Gauge   charts("lr")       "Adam's step size in this update.";
    epsilon             "1"       Gauge   charts("epsilon")  "PQN, DQN: share of random actions in this update's rollout, 0 to 1.";
    replay_size         "1"       Gauge   charts             "Rows of the replay: transitions, and final observations of truncated episodes; empty without a replay.";
    minibatches         "1"       Gauge   charts             "Minibatches of transitions that this update learned from; empty without a replay.";
    policy_loss         "1"       Gauge   losses("policy")   "Clipped policy objective, mean over the last epoch's minibatches.";
    value_loss          "1"       Gauge   losses("value")    "Value loss before its weight, mean over the last epoch's minibatches.";
    entropy             "nat"     Gauge   losses("entropy")  "Entropy of the policy, mean over the last epoch's minibatches.";
    approx_kl           "nat"     Gauge   losses("kl")       "Mean of (ratio - 1) - ln ratio: how far the policy moved in this update.";
    clipfrac            "1"       Gauge   losses("clipfrac") "Share of samples whose probability ratio was clipped, 0 to 1.";
    explained_variance  "1"       Gauge   losses("expl_var") "1 - Var(returns - values) / Var(returns): 1 is a perfect critic, 0 one no better than a constant.";
    grad_norm           "1"       Gauge   losses("grad")     "Global gradient norm before clipping, mean over the last epoch's minibatches.";
    td_loss             "1"       Gauge   losses("td")       "PQN, DQN, SAC, TD3: squared difference between the action value and its target; mean over the last epoch's minibatches, or with a replay over all of the update's.";
    q_values            "1"       Gauge   losses("q")        "PQN, DQN, SAC, TD3: value of the actions taken; mean over the last epoch's minibatches, or with a replay over all of the update's.";
    actor_loss          "1"       Gauge   losses("actor")    "SAC: weighted log-probability of the policy's actions less their value; TD3: minus their value; mean over this update's minibatches.";
    alpha               "1"       Gauge   losses("alpha")    "SAC: weight of the entropy after this update.";
    nonfinite_updates   "1"       Counter losses             "Updates in which a minibatch was skipped because its loss or gradient was not finite.";
    time_rollout        "s"       Gauge   time               "Wall time of this update's rollout: policy and environments, GAE apart.";
    time_gae            "s"       Gauge   time               "Wall time of this update's advantages (GAE).";
    time_update         "s"       Gauge   time               "Wall time of this update's epochs over its batch.";
    time_host           "s"       Gauge   time               "Wall time between the last update and this one spent outside the backend: publishing, evaluation, checkpoints.";
    time_idle           "s"       Gauge   time               "Wall time between the last update and this one that no other phase accounts for: joins, pauses, a device that waits.";
    env_wait            "1"       Gauge   time               "Share of this update's rollout that its threads spent waiting for worker processes of environments, 0 to 1; empty without those.";
    comm_share          "1"       Gauge   time               "Share of the time of this update that was spent in exchanges with the other processes of the run, waiting for them included, 0 to 1; empty without those.";
    bytes_h2d           "B"       Gauge   bus                "Bytes copied from the host to the device in this update; 0 where both share memory.";
    bytes_d2h           "B"       Gauge   bus                "Bytes copied from the device to the host in this update; 0 where both share memory.";
    gpu_utilization     "1"       Gauge   gpu                "Share of the time in which the GPU had work, 0 to 1.";
    gpu_memory          "B"       Gauge   gpu                "Memory in use on the GPU, by all processes.";
    gpu_power           "W"       Gauge   gpu                "Power drawn by the GPU.";
    gpu_temperature     "degC"    Gauge   gpu                "Temperature of the GPU.";
    gpu_clock           "Hz"      Gauge   gpu                "Clock of the GPU's multiprocessors.";
    cpu_utilization     "1"       Gauge   host               "Share of the time in which the cores that the process may use were busy, with any process, 0 to 1.";
    cpu_performance     "1"       Gauge   host               "The same over performance cores alone, where the machine has two kinds.";
    cpu_efficiency      "1"       Gauge   host               "The same over efficiency cores alone, where the machine has two kinds.";
    cpu_balance         "1"       Gauge   host               "Utilization of the efficiency cores over that of the performance cores: 1 is even.";
    core_balance        "1"       Gauge   host               "Utilization of the least busy core that the process may use over that of the most busy one: 1 is even.";
    env_restarts        "1"       Gauge   host               "Failures of worker processes of environments since this process started; each but a final one restarts a worker. Empty without those.";
    resident_memory     "B"       Gauge   host               "Resident memory of the training process.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position;
    use std::collections::BTreeSet;

    #[test]
    fn values_round_trip_in_the_order_of_the_table() {
        let values: [f64; COUNT] = std::array::from_fn(|i| i as f64 + 0.5);
        let record = Record::from_values(values);
        assert_eq!(record.values(), values);
        for (i, metric) in METRICS.iter().enumerate() {
            assert_eq!(record.get(metric.name), Some(values[i]), "{}", metric.name);
            assert_eq!(position(metric.name), Some(i));
        }
        assert_eq!(record.get("episodic_returns"), None);
        assert_eq!(position("episodic_returns"), None);
    }

    #[test]
    fn counters_start_at_zero_and_gauges_at_nan() {
        for (metric, value) in METRICS.iter().zip(Record::default().values()) {
            match metric.kind {
                MetricKind::Counter => assert_eq!(value, 0.0, "{}", metric.name),
                MetricKind::Gauge => assert!(value.is_nan(), "{}", metric.name),
            }
        }
    }

    #[test]
    fn names_are_unique_and_fit_every_sink() {
        let names: BTreeSet<_> = METRICS.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), COUNT);
        for metric in METRICS {
            let plain = |s: &str| {
                s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') && !s.is_empty()
            };
            assert!(plain(metric.name) && plain(metric.group), "{metric:?}");
            assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{metric:?}");
            assert!(!metric.unit.is_empty());
        }
    }

    #[test]
    fn tags_match_cleanrl() {
        let tag = |name| METRICS[position(name).unwrap()].tag();
        assert_eq!(tag("episodic_return"), "charts/episodic_return");
        assert_eq!(tag("learning_rate"), "charts/learning_rate");
        assert_eq!(tag("policy_loss"), "losses/policy_loss");
    }
}
