//! `operant bench` as a user runs it, in small sizes: its output and its errors. No measured value is checked.

#![cfg(target_os = "linux")]

use crate::common::{Finished, SMALL, Sandbox};
use serde_json::Value;

/// Keys that every row must have.
const KEYS: [&str; 13] = [
    "bench",
    "env",
    "device",
    "precision",
    "envs",
    "threads",
    "sps_median",
    "sps_min",
    "sps_max",
    "reps",
    "flops_per_step",
    "peak_flops",
    "fraction_of_peak",
];

/// The smallest measurement.
const TINY: &[&str] =
    &["--steps", "4", "--hidden", "4", "--minibatch", "32", "--budget", "0.05", "--threads", "2"];

fn bench(place: &Sandbox, args: &[&str], more: &[&str]) -> Finished {
    place.operant(&[&["bench"], args, more].concat())
}

/// The rows on stdout, each checked for the common keys.
fn rows(finished: &Finished) -> Vec<Value> {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let row = |line: &str| -> Value {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let object = row.as_object().unwrap_or_else(|| panic!("no object: {line}"));
        assert!(KEYS.iter().all(|key| object.contains_key(*key)), "{line}");
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {line}"));
        assert!(number("sps_min") > 0.0 && number("sps_min") <= number("sps_median"), "{line}");
        assert!(number("sps_median") <= number("sps_max"), "{line}");
        assert!(number("reps") >= 2.0 && number("bytes_per_step") > 0.0, "{line}");
        for key in ["flops_per_step", "peak_flops", "fraction_of_peak"] {
            assert_eq!(row[key].is_null(), row["bench"] == "env", "{key} of {line}");
        }
        if row["bench"] != "env" {
            let share = number("flops_per_step") * number("sps_median") / number("peak_flops");
            assert!((number("fraction_of_peak") / share - 1.0).abs() < 1e-9, "{line}");
        }
        row
    };
    finished.stdout.lines().map(row).collect()
}

#[test]
fn an_algorithm_with_a_replay_is_measured_once_it_learns() {
    let place = Sandbox::new();
    let of = ["rollout", "train", "--algorithm", "sac", "--env", "pendulum", "--json"];
    let rows = rows(&bench(&place, &of, TINY));
    let [rollout, train] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&rollout["envs"], &train["envs"]), (&1.into(), &1.into()));
    let work = train["work"].as_str().expect("its work");
    assert!(work.starts_with("sac, ") && work.contains("1 minibatches of 32 for each step"), "{work}");
    // A minibatch for each step costs far more than acting.
    let flops = |row: &Value| row["flops_per_step"].as_f64().expect("a number");
    assert!(flops(train) > 32.0 * flops(rollout), "{rows:?}");
}

#[test]
fn environments_are_measured_in_all_three_ways() {
    let names = ["cartpole", "taxi", "minatar_breakout"];
    are_measured_in_all_three_ways(&names.join(","), names.map(str::to_owned));
}

#[test]
#[ignore = "cargo xtask test --all"]
fn every_environment_is_measured_in_all_three_ways() {
    are_measured_in_all_three_ways("all", operant_cli::builtin().specs().into_iter().map(|spec| spec.name));
}

fn are_measured_in_all_three_ways(envs: &str, names: impl IntoIterator<Item = String>) {
    let place = Sandbox::new();
    let finished = bench(&place, &["--env", envs, "--envs", "17", "--json"], TINY);
    let rows = rows(&finished);
    assert_eq!(finished.stderr, "");
    let ways = |name: String| ["env", "rollout", "train"].map(|bench| (bench.to_owned(), name.clone()));
    let expected: Vec<_> = names.into_iter().flat_map(ways).collect();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let found: Vec<_> = rows.iter().map(|row| (text(row, "bench"), text(row, "env"))).collect();
    assert_eq!(found, expected);
    for row in &rows {
        assert_eq!((&row["envs"], &row["threads"]), (&17.into(), &2.into()), "{row}");
        assert_eq!((&row["device"], &row["precision"]), (&"cpu".into(), &"f32".into()), "{row}");
        assert_eq!(row.get("update_s").is_some(), row["bench"] == "train", "{row}");
    }
}

#[test]
fn lists_are_swept_and_shown_as_a_table_and_drawn() {
    let place = Sandbox::new();
    let sweep = ["train", "env", "--envs", "16,48", "--plot", "out.svg", "--steps", "4", "--hidden", "4"];
    let sweep = [&sweep[..], &["--minibatch", "32", "--budget", "0.05", "--threads", "1,2"]].concat();
    let rows = rows(&bench(&place, &sweep, &["--json"]));
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row["bench"].as_str().unwrap_or_default(), row["envs"].as_u64(), row["threads"].as_u64()))
        .collect();
    let mut expected = Vec::new();
    for envs in [16, 48] {
        for threads in [1, 2] {
            expected.extend(["env", "train"].map(|bench| (bench, Some(envs), Some(threads))));
        }
    }
    assert_eq!(found, expected, "in the order of benches, whatever the order on the command line");
    let svg = std::fs::read_to_string(place.path().join("out.svg")).expect("drawn");
    assert!(svg.starts_with("<svg") && svg.contains("environments") && svg.contains("train cartpole cpu"));

    let table = bench(&place, &sweep, &[]);
    assert_eq!(table.code, Some(0), "{table:#?}");
    for word in ["bench", "steps/s", "of peak", "train", "48", "FLOP/s of multiply-adds", "B/s of memory"] {
        assert!(table.stdout.contains(word), "no {word:?} in {}", table.stdout);
    }
    assert!(!table.stdout.contains("NaN") && !table.stdout.contains("inf"), "{}", table.stdout);
}

#[test]
fn a_run_is_compared_with_an_earlier_one() {
    let place = Sandbox::new();
    let args = ["env", "rollout", "--envs", "32"];
    let before = bench(&place, &args, &[TINY, &["--json"]].concat());
    assert_eq!(rows(&before).len(), 2);
    place.write("before.jsonl", &before.stdout);
    let after = bench(&place, &args, &[TINY, &["--json", "--compare", "before.jsonl"]].concat());
    for row in rows(&after) {
        let verdict = row["compare"]["verdict"].as_str().unwrap_or_default();
        assert!(["faster", "slower", "same"].contains(&verdict), "{row}");
        assert!(row["compare"]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{row}");
    }
    // Rows of other work are not compared, which is not an error.
    let other = bench(&place, &["env", "--envs", "64"], &[TINY, &["--compare", "before.jsonl"]].concat());
    assert_eq!(other.code, Some(0), "{other:#?}");
    assert!(other.stdout.contains("verdict") && other.stdout.contains("new"), "{other:#?}");
    // An earlier run that was ten times as fast: the verdict is certain, and the exit code still 0.
    let mut row: Value =
        serde_json::from_str(before.stdout.lines().next().unwrap_or_default()).expect("a row");
    for key in ["sps_min", "sps_median", "sps_max"] {
        row[key] = 1e15.into();
    }
    place.write("fast.jsonl", &row.to_string());
    let slower =
        bench(&place, &["env", "--envs", "32"], &[TINY, &["--json", "--compare", "fast.jsonl"]].concat());
    assert_eq!(rows(&slower)[0]["compare"]["verdict"], "slower");
}

#[test]
fn a_profile_accounts_for_the_whole_update_and_names_the_bottleneck() {
    const KINDS: [&str; 7] =
        ["rollout", "policy", "environment", "reduction", "synchronisation", "host", "transfer"];
    let place = Sandbox::new();
    let args = ["--envs", "32", "--profile"];
    let rows = rows(&bench(&place, &args, &[TINY, &["--json"]].concat()));
    assert_eq!(rows.iter().filter(|row| row.get("profile").is_some()).count(), 1);
    let profile = &rows[2]["profile"];
    assert_eq!(rows[2]["bench"], "train");
    let operations = profile["operations"].as_array().expect("operations");
    let sum: f64 = operations.iter().filter_map(|operation| operation["share"].as_f64()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{profile}");
    for name in ["environment", "policy", "sampling", "samples gathered", "forward", "loss", "backward"] {
        let found = operations.iter().find(|operation| operation["operation"] == name);
        let found = found.unwrap_or_else(|| panic!("no {name} in {profile}"));
        assert!(found["calls"].as_f64().is_some_and(|calls| calls > 0.0), "{found}");
    }
    for operation in operations {
        assert!(KINDS.contains(&operation["kind"].as_str().unwrap_or_default()), "{operation}");
        assert!(
            ["timers", "left", "clock"].contains(&operation["how"].as_str().unwrap_or_default()),
            "{operation}"
        );
    }
    assert!(KINDS.contains(&profile["bottleneck"].as_str().unwrap_or_default()), "{profile}");

    // With memory and many environments, learning begins as soon as there is a sequence.
    let args = ["train", "--env", "repeat_previous", "--algorithm", "dqn", "--core", "gru", "--envs", "300"];
    let small = ["--hidden", "16", "--budget", "0.2", "--json"];
    assert_eq!(self::rows(&bench(&place, &[&args[..], &small].concat(), &[]))[0]["envs"], 300);

    // The parts of minibatches of a replay are measured as well, and steps without them.
    for algorithm in ["sac", "dqn"] {
        let env = if algorithm == "dqn" { "cartpole" } else { "pendulum" };
        let args = [
            "train",
            "--env",
            env,
            "--algorithm",
            algorithm,
            "--hidden",
            "32",
            "--profile",
            "--budget",
            "1",
            "--json",
        ];
        let rows = self::rows(&bench(&place, &args, &[]));
        let operations = rows[0]["profile"]["operations"].as_array().expect("operations");
        let share = |name: &str| {
            let found = operations.iter().find(|operation| operation["operation"] == name);
            found
                .and_then(|found| found["share"].as_f64())
                .unwrap_or_else(|| panic!("no {name} in {operations:?}"))
        };
        for name in [
            "samples gathered",
            "forward",
            "loss",
            "backward",
            "sums of gradients",
            "norm and Adam",
            "weights packed",
        ] {
            assert!(share(name) > 0.0, "{algorithm}: {name} of {operations:?}");
        }
        assert!(share("environment") < share("forward") + share("backward"), "{algorithm}: {operations:?}");
    }

    let text = bench(&place, &["rollout", "--envs", "300", "--profile"], TINY);
    for word in ["phases: rollout", "waiting at joins", "bottleneck: ", "  timers: ", "  left: "] {
        assert!(text.stdout.contains(word), "no {word:?} in {text:#?}");
    }
}

#[test]
fn files_and_presets_change_execution_but_not_the_work() {
    let place = Sandbox::new();
    let args = ["train", "--env", "pendulum", "--envs", "32", "--steps", "4", "--budget", "0.05", "--json"];
    let work = |row: &Value| row["work"].as_str().unwrap_or_default().to_owned();
    let plain = rows(&bench(&place, &args, &[]));
    place.write("operant.toml", "hidden = [8]\nnum_minibatches = 7\nthreads = 1\nnorm_obs = true\n");
    let configured = rows(&bench(&place, &args, &[]));
    assert_eq!(work(&configured[0]), work(&plain[0]));
    assert_eq!(configured[0]["threads"], 1);
    let set = ["--set", "update_epochs=2", "--set", "num_minibatches=4", "--set", "shared_trunk=true"];
    let changed = rows(&bench(&place, &args, &set));
    assert_eq!(work(&changed[0]), "3-64-64-(1+1), 4 steps, 4 minibatches, 2 epochs");
}

#[test]
fn a_run_is_measured_with_its_own_settings() {
    let place = Sandbox::new();
    let set = ["--set", "update_epochs=3", "--set", "env.hide=velocity", "--set", "threads=1"];
    let trained =
        place.operant(&[&["train", "cartpole", "--name", "mine", "--steps", "256"], SMALL, &set].concat());
    assert_eq!(trained.code, Some(0), "{trained:#?}");
    let before = std::fs::read(place.path().join("runs/mine/run.json")).expect("there");
    let measured = |more: &[&str]| rows(&bench(&place, &["train", "--budget", "0.05", "--json"], more));
    let row = &measured(&["--run", "mine", "--profile"])[0];
    let work =
        "2-32-2 and 2-32-1, 16 steps, 2 minibatches, 3 epochs, other hyperparameters, hide = \"velocity\"";
    assert_eq!(
        (&row["env"], &row["envs"], &row["threads"]),
        (&"cartpole_no_velocity".into(), &8.into(), &1.into())
    );
    assert_eq!(row["work"], work);
    assert!(row["profile"]["operations"].is_array(), "{row}");
    // The command line overrides the run, and variables and files do not.
    place.write("operant.toml", "hidden = [8]\nthreads = 2\n");
    let more = ["--envs", "24", "--minibatch", "96", "--set", "update_epochs=1", "--set", "env.hide=nothing"];
    let row = &measured(&[&["--run", "runs/mine"], &more[..]].concat())[0];
    assert_eq!((&row["envs"], &row["threads"]), (&24.into(), &1.into()));
    let work = "4-32-2 and 4-32-1, 16 steps, 4 minibatches, 1 epochs, other hyperparameters";
    assert_eq!(row["work"], work);
    assert_eq!(std::fs::read(place.path().join("runs/mine/run.json")).expect("there"), before);

    bench(&place, &["--run", "mien"], &[]).assert_error(2, &["did you mean \"mine\"?", "where: runs"]);
    bench(&place, &["--run", "mine", "--envs", "7"], &["--set", "num_minibatches=3"])
        .assert_error(2, &["does not divide", "where: --set"]);
    let both = bench(&place, &["--run", "mine", "--env", "cartpole"], &[]);
    assert_eq!((both.code, both.stdout.as_str()), (Some(2), ""), "{both:#?}");
    assert!(both.stderr.contains("'--run <RUN>' cannot be used with '--env <NAME,..>'"), "{both:#?}");
}

#[test]
fn invalid_requests_are_refused_before_anything_is_measured() {
    let place = Sandbox::new();
    place.write("no.jsonl", "{\"bench\":\"train\"}\n");
    place.write("empty.jsonl", "");
    std::fs::write(place.path().join("bytes.jsonl"), [0xff, 0xfe]).expect("written");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--env", "cartpol"], &["\"cartpol\"", "did you mean \"cartpole\"?", "where: --env"]),
        (&["--env", "cartpole,"], &["where: --env"]),
        (&["trian"], &["\"trian\"", "did you mean \"train\"?"]),
        (&["--envs", "64,many"], &["num_envs = \"many\"", "where: --envs"]),
        (&["--envs", "64,,128"], &["where: --envs"]),
        (&["--envs", "0"], &["num_envs = 0", "where: --envs"]),
        (&["--envs", "auto"], &["auto", "where: --envs"]),
        (&["--threads", "1,-2"], &["threads = -2", "where: --threads"]),
        (&["--threads", "two"], &["threads = \"two\"", "where: --threads"]),
        (&["--device", "tpu"], &["is not a device", "where: --device"]),
        (&["--device", "cpu,cuda:x"], &["is not a device", "where: --device"]),
        (&["--precision", "tf32"], &["needs a GPU", "where: --precision"]),
        (&["--precision", "f64"], &["is not one of the choices", "where: --precision"]),
        (&["--hidden", "64,0"], &["width 0", "where: --hidden"]),
        (&["--steps", "0"], &["num_steps = 0", "where: --steps"]),
        (&["--set", "num_envs=3"], &["has its own flag", "--envs"]),
        (&["--set", "learning_rat=1"], &["did you mean \"learning_rate\"?", "where: --set"]),
        (&["--set", "env.gravity=3"], &["gravity", "where: --set"]),
        (&["--set", "num_minibatches=7", "--envs", "64"], &["does not divide", "where: --set"]),
        (&["--compare", "missing.jsonl"], &["cannot be read", "where: --compare missing.jsonl"]),
        (&["--compare", "no.jsonl"], &["not a row", "where: --compare no.jsonl:1"]),
        (&["--compare", "empty.jsonl"], &["no rows", "where: --compare empty.jsonl"]),
        (&["--compare", "bytes.jsonl"], &["not UTF-8 text", "where: --compare bytes.jsonl"]),
        (&["--plot", "no/such/out.svg"], &["cannot be written", "where: --plot no/such/out.svg"]),
    ];
    for (args, parts) in cases {
        bench(&place, args, &["--budget", "0.05"]).assert_error(2, parts);
    }
    for args in [&["--budget", "long"][..], &["--minibatch", "0"], &["--nonsense"]] {
        let finished = bench(&place, args, &[]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished:#?}");
    }
}

#[test]
fn a_gpu_is_measured_in_the_same_run_as_the_cpu() {
    let Some(libraries) = crate::stand_in::directory("operant bench on a GPU") else { return };
    let place = Sandbox::new();
    let on_stand_in = |args: &[&str]| {
        let mut command = place.command(args);
        for (name, value) in crate::stand_in::environment(&libraries) {
            command.env(name, value);
        }
        Finished::of(command.output().expect("started"))
    };
    let args =
        ["bench", "--device", "cpu,cuda:2", "--precision", "f32,tf32", "--envs", "32", "--json", "--profile"];
    let finished = on_stand_in(&[&args[..], TINY].concat());
    let rows = rows(&finished);
    let kind = |row: &Value| {
        ["bench", "device", "precision"].map(|key| row[key].as_str().unwrap_or_default().to_owned())
    };
    let mut expected = Vec::new();
    for (device, precision) in [("cpu", "f32"), ("cuda:2", "f32"), ("cuda:2", "tf32")] {
        let of = |bench: &&str| [bench.to_string(), device.to_owned(), precision.to_owned()];
        // Benches of environments alone have one precision.
        let benches = ["env", "rollout", "train"];
        expected.extend(benches.iter().filter(|bench| precision == "f32" || **bench != "env").map(of));
    }
    assert_eq!(rows.iter().map(kind).collect::<Vec<_>>(), expected);
    for row in rows.iter().filter(|row| row["device"] == "cuda:2") {
        assert!(row["threads"].is_null(), "{row}");
        if row["bench"] == "train" {
            let operations = row["profile"]["operations"].as_array().expect("a profile");
            assert!(operations.iter().any(|operation| operation["how"] == "events"), "{row}");
            assert!(row["profile"]["gae_s"].is_null() && row["bus_bytes"].as_f64() > Some(0.0), "{row}");
        } else {
            assert_eq!((&row["launches"], &row["bus_bytes"]), (&1.0.into(), &0.0.into()), "{row}");
        }
    }

    let auto = on_stand_in(&[&["bench", "env", "--device", "auto", "--envs", "32", "--json"], TINY].concat());
    assert_eq!(self::rows(&auto)[0]["device"], "cuda:0");
    on_stand_in(&["bench", "--device", "cuda:9"]).assert_error(2, &["cuda:9", "where: --device"]);
}
