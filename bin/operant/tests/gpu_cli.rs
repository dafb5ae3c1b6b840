//! The command line with GPUs: messages about missing or invalid libraries, and behaviour with the host's stand-in for
//! a GPU.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Finished, SMALL, Sandbox};
use serde_json::Value;

/// Variables that name directories of libraries.
const VARIABLES: &[&str] = &[
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PATH",
    "CUDA_VISIBLE_DEVICES",
];

/// One step that does not end the episode.
const CASE: &str = "{\"state\":[0,0,0.1,0],\"actions\":[1]}\n";

/// `operant` that searches for libraries in one directory, and then only in the loader's paths.
struct Operant {
    place: Sandbox,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Operant {
    fn looking_in(directory: impl FnOnce(&Path) -> PathBuf) -> Self {
        let place = Sandbox::new();
        let libraries = directory(place.path());
        let cache = place.path().join("cache");
        Operant {
            place,
            variables: vec![("OPERANT_CUDA_LIBRARIES", libraries), ("OPERANT_CACHE_DIR", cache)],
        }
    }

    /// With an empty directory for libraries; None on a machine whose loader finds a driver, which cannot be hidden.
    fn without_libraries() -> Option<Self> {
        let operant = Operant::looking_in(|place| {
            std::fs::create_dir(place.join("empty")).expect("a directory");
            place.join("empty")
        });
        let driver = operant.info()["driver"]["path"].clone();
        if !driver.is_null() {
            let _ = writeln!(std::io::stderr(), "SKIPPED a machine without libraries: this one has {driver}");
            return None;
        }
        Some(operant)
    }

    /// With the stand-in for a GPU; None without a C++ compiler.
    fn with_stand_in(skipped: &str) -> Option<Self> {
        let directory = crate::stand_in::directory(skipped)?;
        Some(Operant { place: Sandbox::new(), variables: crate::stand_in::environment(&directory) })
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env_remove("OPERANT_DEVICE");
        // The stand-in's compiler needs PATH; otherwise it is unset, so that no Python is searched.
        let keeps_path = self.variables.iter().any(|(_, path)| path.join("libnvrtc.so").exists());
        for name in VARIABLES.iter().filter(|name| !(keeps_path && **name == "PATH")) {
            command.env(name, "");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).env("RUST_BACKTRACE", "1");
        command
    }

    /// Runs to the end, which must not be a panic.
    fn run(&self, args: &[&str], input: &str) -> Finished {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        self.place.guard(&child);
        let (mut stdin, input) = (child.stdin.take().expect("piped"), input.to_owned());
        // A program that does not read its input closes the pipe.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let finished = crate::common::finish(child);
        writer.join().expect("written");
        for word in ["panicked", "bug in operant", "stack backtrace", "RUST_BACKTRACE"] {
            assert!(!finished.stderr.contains(word), "{args:?}: {finished:#?}");
        }
        finished
    }

    fn info(&self) -> Value {
        let finished = self.run(&["info", "--json"], "");
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished:#?}");
        finished.json()
    }

    /// Trains shortly with `--device auto`, and returns its line about the device.
    fn trains_on_cpu(&self) -> String {
        let mut args =
            vec!["train", "cartpole", "-v", "--device", "auto", "--steps", "1280", "--name", "short"];
        args.extend(SMALL);
        args.extend(["--set", "ring=false", "--json"]);
        let finished = self.run(&args, "");
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        assert_eq!(finished.json()["device"], "cpu");
        let lines: Vec<&str> = finished.stderr.lines().filter(|line| line.starts_with("device: ")).collect();
        assert_eq!(lines.len(), 1, "{finished:#?}");
        let log = self.place.path().join("runs/short/operant.log");
        assert!(std::fs::read_to_string(log).expect("the log").contains(lines[0]), "the log has it too");
        lines[0].to_owned()
    }

    /// Asserts that a run on a GPU is refused before any file is created.
    fn refuses_to_train(&self, parts: &[&str]) {
        for more in [&[][..], &["--detach"], &["--precision", "bf16"]] {
            let args = [&["train", "cartpole", "--device", "cuda", "--name", "refused"], more].concat();
            let parts = [&["where: --device", "device = \"cuda\""], parts].concat();
            self.run(&args, "").assert_error(2, &parts);
        }
        assert!(!self.place.path().join("runs/refused").exists(), "nothing was trained");
    }

    /// The text of `info`, without escape sequences.
    fn page(&self) -> String {
        let finished = self.run(&["info"], "");
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished:#?}");
        assert!(!finished.stdout.contains('\u{1b}'), "no colours in a pipe: {finished:#?}");
        finished.stdout
    }
}

#[test]
fn without_libraries_the_remedy_names_what_to_install() {
    let Some(operant) = Operant::without_libraries() else { return };
    let page = operant.page();
    for part in
        ["no NVIDIA driver here", "install the NVIDIA driver", "GPU", "none", "--device auto", "takes cpu"]
    {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    assert!(page.starts_with("verdict        trains on cpu with "), "{page}");
    let info = operant.info();
    let problems = info["problems"].as_array().expect("a list").len();
    assert_eq!(page.contains("; nothing is wrong\n"), problems == 0, "{page}");
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let driver = &info["driver"];
    assert!(driver["path"].is_null() && driver["version"].is_null(), "{driver}");
    assert_eq!(driver["minimum"], "12.0");
    assert!(
        driver["problem"].as_str().is_some_and(|text| text.contains("no NVIDIA driver here")),
        "{driver}"
    );
    assert!(
        driver["remedy"].as_str().is_some_and(|text| text.contains("OPERANT_CUDA_LIBRARIES")),
        "{driver}"
    );
    let searched = driver["searched"].as_array().expect("a list");
    let empty = operant.place.path().join("empty").display().to_string();
    assert_eq!(searched[0], empty);
    assert!(searched.iter().any(|place| place == "/usr/lib/wsl/lib"), "{driver}");
    let verbose = operant.run(&["info", "--verbose"], "").stdout;
    let lines = |page: &str| page.split_whitespace().collect::<Vec<_>>().join(" ");
    for place in searched.iter().filter_map(Value::as_str) {
        assert!(lines(&verbose).contains(place), "no {place} in:\n{verbose}");
    }
    assert_eq!(info["gpus"], serde_json::json!([]));
    assert_eq!(info["auto"]["device"], "cpu");
    assert!(info["auto"]["reason"].as_str().is_some_and(|text| text.contains("no NVIDIA driver")), "{info}");
    assert!(operant.run(&["config", "cartpole"], "").stdout.starts_with("# auto takes cpu: no usable GPU: "));
    assert!(info["cpu"]["threads"].as_u64().is_some_and(|threads| threads >= 1), "{info}");
    assert!([8, 16].map(Value::from).contains(&info["cpu"]["lane_width"]), "{info}");
    let plan = info["cpu"]["plan"].as_array().expect("a list");
    for (name, value) in
        [("threads", Some(info["cpu"]["threads"].to_string())), ("pinning", None), ("waiting", None)]
    {
        let setting = plan.iter().find(|setting| setting["name"] == name).expect("a setting");
        let (shown, reason) = (setting["value"].as_str().expect("text"), setting["reason"].as_str());
        assert!(value.is_none_or(|value| value == shown), "{info}");
        let reason = reason.filter(|reason| !reason.is_empty()).expect("a reason");
        assert!(lines(&page).contains(&format!("{name} {shown}: {reason}")), "no {name} in:\n{page}");
    }
    // As configured; an invalid configuration does not prevent `info`.
    operant.place.write("operant.toml", "threads = 3\nwaiting = \"yield\"\n");
    let plan = &operant.info()["cpu"]["plan"];
    assert_eq!((&plan[0]["value"], &plan[0]["reason"]), (&"3".into(), &"requested".into()), "{plan}");
    assert_eq!((&plan[2]["name"], &plan[2]["value"]), (&"waiting".into(), &"yield".into()), "{plan}");
    operant.place.write("operant.toml", "threads = -1\n");
    let info = operant.info();
    assert!(info["cpu"]["plan_problem"].as_str().is_some_and(|text| text.contains("threads = -1")), "{info}");
    let named = |problem: &Value| problem.as_str().is_some_and(|text| text.contains("threads = -1"));
    let listed = info["problems"].as_array().expect("a list");
    assert!(listed.len() == problems + 1 && listed.iter().any(named), "{info}");
    std::fs::remove_file(operant.place.path().join("operant.toml")).expect("removed");
    assert_eq!(info["kernel_cache"]["kernels"], 0);

    let line = operant.trains_on_cpu();
    assert!(line.starts_with("device: cpu; no usable GPU: no NVIDIA driver here"), "{line}");
    let parts = ["no NVIDIA driver here", "--device cpu", "install the NVIDIA driver"];
    operant.refuses_to_train(&parts);
    let replay = operant.run(&["replay", "cartpole", "--device", "cuda"], CASE);
    replay.assert_error(2, &["no NVIDIA driver here", "install the NVIDIA driver", "where: --device cuda:0"]);
}

#[test]
fn a_text_file_in_place_of_the_driver_is_named() {
    let Some(_) = Operant::without_libraries() else { return };
    let operant = Operant::looking_in(|place| {
        for name in ["libcuda.so.1", "libnvrtc.so.13"] {
            std::fs::write(place.join(name), "not a library\n").expect("written");
        }
        place.to_path_buf()
    });
    let file = operant.place.path().join("libcuda.so.1").display().to_string();
    let message = format!("{file} cannot be loaded");
    assert!(operant.page().contains(&message), "{}", operant.page());
    let info = operant.info();
    assert!(info["driver"]["problem"].as_str().is_some_and(|text| text.contains(&message)), "{info}");
    assert!(info["driver"]["path"].is_null(), "{info}");
    assert!(info["problems"].to_string().contains("cannot be loaded"), "{info}");
    assert!(operant.trains_on_cpu().contains(&message));
    operant.refuses_to_train(&[&message, "reinstall the NVIDIA driver"]);
    let replay = operant.run(&["replay", "cartpole", "--device", "cuda"], CASE);
    replay.assert_error(2, &[&message]);
}

#[test]
fn a_driver_without_a_compiler_has_a_remedy() {
    let Some(directory) = crate::stand_in::directory("a driver without a compiler") else { return };
    let operant = Operant::looking_in(|place| {
        std::fs::create_dir(place.join("half")).expect("a directory");
        std::fs::copy(directory.join("libcuda.so"), place.join("half/libcuda.so")).expect("copied");
        place.join("half")
    });
    let info = operant.info();
    if !info["compiler"]["path"].is_null() {
        let _ = writeln!(std::io::stderr(), "SKIPPED a driver without a compiler: this machine has one");
        return;
    }
    assert!(!info["driver"]["path"].is_null(), "{info}");
    let part = "`pip install nvidia-cuda-nvrtc`";
    assert!(info["compiler"]["remedy"].as_str().is_some_and(|text| text.contains(part)), "{info}");
    assert!(info["auto"]["reason"].as_str().is_some_and(|text| text.contains("NVRTC")), "{info}");
    assert!(operant.page().contains(part));
    operant.refuses_to_train(&["NVRTC", part]);
}

#[test]
fn the_devices_of_a_driver_are_shown() {
    let Some(operant) = Operant::with_stand_in("the devices of a driver") else { return };
    let info = operant.info();
    let gpus = info["gpus"].as_array().expect("a list");
    assert_eq!(gpus.len(), 6, "{info}");
    for (k, gpu) in gpus.iter().enumerate() {
        assert_eq!(gpu["device"], format!("cuda:{k}"));
        assert!(gpu["uuid"].as_str().is_some_and(|uuid| uuid.starts_with("GPU-")), "{gpu}");
        assert!(gpu["memory_total"].as_u64().is_some_and(|bytes| bytes > 0), "{gpu}");
        assert_eq!(gpu["cooperative"], k != 4, "{gpu}");
    }
    for (part, version) in [("driver", "13.0"), ("compiler", "13.0"), ("blas", "13.0")] {
        assert!(info[part]["problem"].is_null() && info[part]["remedy"].is_null(), "{info}");
        assert!(info[part]["path"].as_str().is_some_and(|path| Path::new(path).exists()), "{info}");
        assert_eq!(info[part]["version"], version);
    }
    assert!(info["compiler"]["architectures"].as_array().is_some_and(|known| !known.is_empty()), "{info}");
    let name = gpus[0]["name"].as_str().expect("a name");
    assert_eq!(info["auto"]["device"], "cuda:0");
    let reason = info["auto"]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with(name) && reason.contains("cartpole"), "{reason}");
    let page = operant.page();
    for part in [
        "cuda:0",
        "cuda:5",
        name,
        "no cooperative launch",
        "compute capability",
        "--device auto",
        "takes cuda:0",
    ] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    assert!(!page.contains("missing: ") && !page.contains("problem: "), "{page}");

    let absent = ["train", "cartpole", "--device", "cuda:9"];
    operant.run(&absent, "").assert_error(2, &["there is no GPU 9", "the driver sees 6", "--device cpu"]);
    let absent = ["replay", "cartpole", "--device", "cuda:9"];
    operant.run(&absent, CASE).assert_error(2, &["there is no GPU 9", "CUDA_VISIBLE_DEVICES"]);
    let double = ["replay", "cartpole", "--device", "cuda", "--precision", "f64"];
    operant.run(&double, CASE).assert_error(2, &["no double precision", "where: --precision f64"]);
}

#[test]
fn a_gpu_trains_and_a_run_continues_elsewhere() {
    let Some(operant) = Operant::with_stand_in("training on a GPU") else { return };
    let train = |device: &str, more: &[&str]| {
        let mut args = vec!["train", "cartpole", "--device", device, "--json"];
        args.extend(more);
        let finished = operant.run(&args, "");
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        finished.json()
    };
    let small = [SMALL, &["--set", "ring=false", "--set", "lr_schedule=constant"]].concat();
    let first = train("cuda:2", &[&["--name", "straight", "--steps", "2560"], &small[..]].concat());
    assert_eq!((&first["device"], &first["env_steps"]), (&"cuda:2".into(), &2_560.into()));
    let log = operant.place.path().join("runs/straight/operant.log");
    let metrics = operant.place.path().join("runs/straight/metrics.csv");
    assert!(std::fs::read_to_string(log).expect("the log").contains("cuda:2"));
    let rows = std::fs::read_to_string(metrics).expect("metrics");
    assert!(rows.lines().count() > 2, "{rows}");

    // The same bits with another order of threads, and from a checkpoint halfway.
    let other = train("cuda:1", &[&["--name", "other", "--steps", "2560"], &small[..]].concat());
    assert_eq!(first["eval_return_mean"], other["eval_return_mean"]);
    let rounded = train(
        "cuda:0",
        &[&["--name", "bf16", "--precision", "bf16", "--steps", "2560"], &small[..]].concat(),
    );
    assert_eq!(rounded["env_steps"], 2_560);
    train("cuda:0", &[&["--name", "half", "--steps", "1280"], &small[..]].concat());
    let resumed = train("cuda:0", &["--resume", "half", "--steps", "2560", "--set", "ring=false"]);
    assert_eq!(resumed["env_steps"], 2_560);
    assert_eq!(first["eval_return_mean"], resumed["eval_return_mean"]);
    let on_cpu = train("cpu", &["--resume", "half", "--steps", "3840", "--set", "ring=false"]);
    assert_eq!((&on_cpu["device"], &on_cpu["env_steps"]), (&"cpu".into(), &3_840.into()));
}

#[test]
fn auto_uses_a_gpu_with_its_preset_or_the_cpu_with_its_own() {
    let Some(operant) = Operant::with_stand_in("auto on a GPU") else { return };
    let shown = operant.run(&["config", "cartpole"], "").stdout;
    assert!(shown.starts_with("# auto takes cuda:0: "), "{shown}");
    for (device, many) in [("auto", true), ("cuda:4", true), ("cpu", false)] {
        let shown = operant.run(&["config", "cartpole", "--device", device], "").stdout;
        assert_eq!(shown.contains("# preset cartpole [gpu]"), many, "{device}: {shown}");
    }
    let train = |more: &[&str]| {
        let sets = ["--json", "--set", "ring=false", "--set", "eval_episodes=5"];
        let finished = operant.run(&[&["train", "cartpole", "-v"], more, &sets].concat(), "");
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        let device = finished.stderr.lines().find(|line| line.starts_with("device: ")).map(str::to_owned);
        (finished.json(), device.unwrap_or_default())
    };
    let saved = |run: &str| {
        let path = operant.place.path().join("runs").join(run).join("config.toml");
        let text = std::fs::read_to_string(path).expect("its configuration");
        let key = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} = ")));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
        };
        ["num_envs", "num_steps"].map(key)
    };

    // The run overrides sizes to be small; the rest of the preset is the GPU's.
    let (result, line) =
        train(&["--name", "many", "--envs", "64", "--steps", "2048", "--set", "num_minibatches=2"]);
    assert_eq!(result["device"], "cuda:0");
    assert!(line.starts_with("device: cuda:0; ") && line.contains("which auto takes"), "{line}");
    assert_eq!(saved("many"), ["num_envs = 64", "num_steps = 32"]);

    // A GPU without enough memory: the CPU with the CPU's preset, and the reason.
    let none = ["--set", "memory_fraction=1e-9"];
    let (result, line) = train(&[&["--name", "few", "--steps", "1024"], &none[..]].concat());
    assert_eq!((&result["device"], &result["env_steps"]), (&"cpu".into(), &1_024.into()));
    assert!(line.starts_with("device: cpu; cuda:0 cannot train this: "), "{line}");
    assert_eq!(saved("few"), ["num_envs = 16", "num_steps = 64"]);
    let asked = [&["train", "cartpole", "--device", "cuda"], &none[..]].concat();
    operant.run(&asked, "").assert_error(2, &["num_envs", "memory"]);
    let tensor = [&["train", "cartpole", "--precision", "tf32"], &none[..]].concat();
    operant.run(&tensor, "").assert_error(2, &["needs a GPU", "the CPU is used: cuda:0 cannot train this"]);

    // An order of devices: the first one that exists and can train. The CPU overrides a file's settings.
    let order = ["--set", "device=cuda:7,cuda:0,cpu", "--envs", "64", "--set", "num_minibatches=2"];
    let (result, line) = train(&[&["--name", "first", "--steps", "2048"], &order[..]].concat());
    assert_eq!(result["device"], "cuda:0");
    assert!(line.starts_with("device: cuda:0; cuda:7 is not used: "), "{line}");
    let file = operant.place.path().join("operant.toml");
    std::fs::write(&file, "precision = \"tf32\"\n").expect("written");
    let (result, line) = train(&[&["--name", "last", "--steps", "2048"], &order[..], &none[..]].concat());
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(result["device"], "cpu");
    let parts = [
        "cuda:0 cannot train this: ",
        "the CPU has no precision = \"tf32\"",
        "operant.toml:1",
        "it is \"f32\"",
    ];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    let missing = ["train", "cartpole", "--device", "cuda:7,cuda:8"];
    operant.run(&missing, "").assert_error(2, &["cannot be used: cuda:7 is not used", "where: --device"]);
    // `config` shows them nevertheless, as for a device requested by name.
    let shown = |device| operant.run(&["config", "cartpole", "--device", device], "");
    let (order, alone) = (shown("cuda:7,cuda:8"), shown("cuda:7"));
    assert_eq!((order.code, alone.code), (Some(0), Some(0)), "{order:#?}");
    let but_devices = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("device = ")).map(str::to_owned).collect()
    };
    assert_eq!(but_devices(&order.stdout), but_devices(&alone.stdout));

    // Each run keeps its device.
    let sets = ["--set", "ring=false", "--set", "memory_fraction=0.9", "--json"];
    let resume = |run: &str, steps: &str| {
        let finished =
            operant.run(&[&["train", "-v", "--resume", run, "--steps", steps], &sets[..]].concat(), "");
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        (finished.json()["device"].clone(), finished.stderr)
    };
    let (device, message) = resume("few", "2048");
    assert_eq!(device, "cpu");
    assert!(message.contains("device: cpu; the run trained there before"), "{message}");
    assert_eq!(resume("many", "4096").0, "cuda:0");
    assert_eq!(saved("many"), ["num_envs = 64", "num_steps = 32"]);
    // With an order from the run's start it keeps its device too; an order on the command line decides.
    let (device, message) = resume("last", "8192");
    assert_eq!(device, "cpu");
    assert!(message.contains("device: cpu; the run trained there before"), "{message}");
    let now = ["train", "--resume", "last", "--steps", "12288", "--device", "cuda:0,cpu"];
    let finished = operant.run(&[&now, &sets[..]].concat(), "");
    assert_eq!(finished.json()["device"], "cuda:0", "{finished:#?}");
}

#[test]
fn every_way_to_name_a_device_leads_to_its_preset() {
    let Some(operant) = Operant::with_stand_in("presets by device") else { return };
    let preset = |operant: &Operant, args: &[&str]| {
        let shown = operant.run(&[&["config", "acrobot"], args].concat(), "").stdout;
        let line = shown.lines().find(|line| line.starts_with("num_envs = ")).expect("num_envs").to_owned();
        line.split_once("# ").expect("an origin").1.to_owned()
    };
    assert_eq!(preset(&operant, &["--device", "cpu"]), "preset acrobot");
    assert_eq!(preset(&operant, &["--device", "cuda"]), "preset acrobot [gpu]");
    assert_eq!(preset(&operant, &["--set", "device=cpu"]), "preset acrobot");
    let file = operant.place.path().join("operant.toml");
    std::fs::write(&file, "device = \"cpu\"\n").expect("written");
    assert_eq!(preset(&operant, &[]), "preset acrobot");
    let operant = operant.with("OPERANT_DEVICE", "cuda");
    assert_eq!(preset(&operant, &[]), "preset acrobot [gpu]");
    assert_eq!(preset(&operant, &["--device", "cpu"]), "preset acrobot");
    std::fs::write(&file, "device = \"cpu\"\n[acrobot]\nnum_envs = 64\n").expect("written");
    assert!(preset(&operant, &[]).ends_with("operant.toml:3"));
}

#[test]
fn a_policy_with_memory_trains_and_resumes_on_a_gpu() {
    let Some(operant) = Operant::with_stand_in("memory on a GPU") else { return };
    let train = |more: &[&str]| {
        let sets = ["--json", "--set", "ring=false", "--set", "eval_episodes=2"];
        let finished = operant.run(&[&["train", "-v"], more, &sets].concat(), "");
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        finished
    };
    let sets = ["num_envs=16", "num_steps=32", "sequence_length=16", "lr_schedule=constant"];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let small: Vec<&str> = ["t_maze", "--device", "cuda"].into_iter().chain(sets).collect();
    let first = train(&[&small[..], &["--name", "straight", "--steps", "2048"]].concat());
    assert!(first.stderr.contains("kernels: gemm"), "{}", first.stderr);
    train(&[&small[..], &["--name", "half", "--steps", "1024"]].concat());
    let resumed = train(&["--resume", "half", "--steps", "2048"]).json();
    let first = first.json();
    assert_eq!((&first["env_steps"], &resumed["env_steps"]), (&2_048.into(), &2_048.into()));
    assert_eq!(first["eval_return_mean"], resumed["eval_return_mean"]);
    // The fused kernels do not support a core.
    let refused = operant.run(&[&["train"], &small[..], &["--set", "kernels=fused"]].concat(), "");
    refused.assert_error(2, &["kernels", "gemm"]);
}

#[test]
fn an_unwritable_cache_is_reported_and_costs_only_time() {
    let Some(operant) = Operant::with_stand_in("a cache that cannot be written") else { return };
    let operant = operant.with("OPERANT_CACHE_DIR", "/proc/nope");
    let mut args = vec!["train", "cartpole", "-v", "--device", "cuda", "--steps", "640", "--name", "slow"];
    args.extend(SMALL);
    args.extend(["--set", "ring=false"]);
    let finished = operant.run(&args, "");
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    assert!(finished.stderr.contains("device: cuda:0; kernels are compiled at every start"), "{finished:#?}");
}

#[test]
fn a_gpu_that_is_lost_while_training_ends_the_run_with_an_error() {
    let Some(operant) = Operant::with_stand_in("a GPU that is lost") else { return };
    let mut args = vec!["train", "cartpole", "--device", "cuda:5", "--steps", "2560", "--name", "lost"];
    args.extend(SMALL);
    args.extend(["--set", "ring=false"]);
    operant.run(&args, "").assert_error(1, &["CUDA_ERROR_LAUNCH_FAILED"]);
}

#[test]
fn a_run_on_two_gpus_has_the_bits_of_one() {
    let Some(operant) = Operant::with_stand_in("a run on two GPUs") else { return };
    let operant = operant.with("OPERANT_HOST_DEVICES", "2");
    let train = |name: &str, device: &[&str]| {
        let mut args = vec!["train", "cartpole", "--name", name, "--deterministic", "--json"];
        args.extend(SMALL);
        args.extend(["--set", "num_envs=64", "--set", "num_steps=32", "--set", "shuffle=blocks"]);
        args.extend(["--set", "ring=false", "--steps", "6144"]);
        args.extend(device);
        let finished = operant.run(&args, "");
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        let log = operant.place.path().join("runs").join(name).join("operant.log");
        (operant.place.final_state(name), std::fs::read_to_string(log).expect("the log"))
    };
    let (one, _) = train("one", &["--device", "cuda:0"]);
    let (two, log) = train("two", &["--distributed", "nccl"]);
    assert!(one == two, "{log}");
    assert!(log.contains("2 GPUs share the environments"), "{log}");
}

#[test]
fn several_gpus_that_cannot_train_together_are_one_error() {
    let Some(operant) = Operant::with_stand_in("errors of several GPUs") else { return };
    let refuse = |operant: &Operant, more: &[&str], parts: &[&str]| {
        let mut args = vec!["train", "cartpole", "--distributed", "nccl", "--name", "refused"];
        args.extend(SMALL);
        args.extend(["--set", "num_envs=64", "--set", "num_steps=32"]);
        args.extend(more);
        operant.run(&args, "").assert_error(2, parts);
        assert!(!operant.place.path().join("runs/refused").exists(), "nothing was trained");
    };
    let blocks = ["--set", "shuffle=blocks"];
    let operant = operant.with("OPERANT_HOST_DEVICES", "2");
    refuse(&operant, &[], &["blocks"]);
    refuse(&operant, &[&blocks[..], &["--device", "cpu"]].concat(), &["--distributed nccl"]);
    let operant = operant.with("OPERANT_HOST_DEVICES", "3");
    refuse(&operant, &blocks, &["3"]);

    // A directory with all libraries but NCCL.
    let mut operant = operant.with("OPERANT_HOST_DEVICES", "2");
    let all = crate::stand_in::directory("errors of several GPUs").expect("built before");
    let without = operant.place.path().join("without");
    std::fs::create_dir(&without).expect("a directory");
    for entry in std::fs::read_dir(&all).expect("listed").flatten() {
        if !entry.file_name().to_string_lossy().starts_with("libnccl") {
            std::os::unix::fs::symlink(entry.path(), without.join(entry.file_name())).expect("linked");
        }
    }
    operant.variables.extend(crate::stand_in::environment(&without));
    refuse(&operant, &blocks, &["NCCL", "pip install nvidia-nccl-cu13"]);

    if let Some(operant) = Operant::without_libraries() {
        refuse(&operant, &blocks, &["libcuda"]);
    }
}

#[test]
fn an_old_driver_and_one_without_gpus_differ_from_a_missing_one() {
    let skipped = "an old driver";
    let Some(operant) = Operant::with_stand_in(skipped) else { return };
    let old = operant.with("OPERANT_HOST_DRIVER_VERSION", "11080");
    let info = old.info();
    assert_eq!(info["driver"]["version"], "11.8");
    assert!(
        info["driver"]["problem"].as_str().is_some_and(|text| text.contains("the minimum is 12.0")),
        "{info}"
    );
    old.refuses_to_train(&["supports CUDA 11.8", "newer NVIDIA driver"]);

    let Some(operant) = Operant::with_stand_in(skipped) else { return };
    let none = operant.with("OPERANT_HOST_DEVICES", "0");
    let info = none.info();
    assert_eq!(info["gpus"], serde_json::json!([]));
    assert_eq!(info["driver"]["version"], "13.0");
    assert!(none.trains_on_cpu().starts_with("device: cpu; no usable GPU: "));
    none.refuses_to_train(&["--device cpu"]);
}

/// The cases of an environment's reference, if it has one, without the reference's random numbers, which a GPU does not
/// accept.
fn cases(env: &str) -> Option<String> {
    let references = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/operant-env/tests/data");
    references.join(format!("{env}.reference.json")).exists().then(|| {
        let [cases, long] = ["cases", "long"].map(|kind| crate::data::text(&format!("{env}.{kind}.jsonl")));
        let lines = cases + &long;
        let line = |line: &str| {
            if !line.contains("\"draws\"") {
                return format!("{line}\n");
            }
            let mut case: Value = serde_json::from_str(line).expect("JSON");
            case.as_object_mut().expect("an object").remove("draws");
            format!("{case}\n")
        };
        lines.lines().map(line).collect()
    })
}

/// What `replay` prints for these cases, which must be a line for each.
fn replayed(operant: &Operant, env: &str, device: &[&str], cases: &str) -> String {
    let args = [&["replay", env, "--precision", "f32", "--device"], device].concat();
    let finished = operant.run(&args, cases);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{env}: {finished:#?}");
    assert_eq!(finished.stdout.lines().count(), cases.lines().count(), "{env}");
    finished.stdout
}

#[test]
fn a_gpu_replays_the_bytes_of_the_scalar_lane() {
    let Some(operant) = Operant::with_stand_in("replay on a GPU") else { return };
    let (mut terminated, mut truncated) = (0, 0);
    let mut compared = 0;
    for spec in operant_cli::builtin().of_each_kind().specs() {
        let env = spec.name.as_str();
        let Some(cases) = cases(env) else { continue };
        compared += 1;
        let expected = replayed(&operant, env, &["scalar"], &cases);
        let given = replayed(&operant, env, &["cuda"], &cases);
        for (number, (given, expected)) in given.lines().zip(expected.lines()).enumerate() {
            assert_eq!(given, expected, "{env}, line {}", number + 1);
        }
        for line in expected.lines() {
            let outcome: Value = serde_json::from_str(line).expect("JSON");
            let last = |key: &str| {
                outcome[key].as_array().and_then(|list| list.last()).is_some_and(|last| last == true)
            };
            terminated += usize::from(last("terminated"));
            truncated += usize::from(last("truncated"));
        }
    }
    assert!(compared >= 6, "{compared} environments have cases");
    assert!(terminated > 10 && truncated > 0, "{terminated} episodes ended by rules, {truncated} by time");
}

#[test]
fn another_gpu_gives_the_same_bytes_and_no_case_prints_nothing() {
    let Some(operant) = Operant::with_stand_in("replay on another GPU") else { return };
    // A separate, empty cache.
    let cache = operant.place.path().join("own");
    let operant = operant.with("OPERANT_CACHE_DIR", cache.to_str().expect("text"));
    let cases = crate::data::text("cartpole.cases.jsonl");
    let expected = replayed(&operant, "cartpole", &["scalar"], &cases);
    for device in ["cuda:1", "cuda:2"] {
        assert_eq!(replayed(&operant, "cartpole", &[device], &cases), expected, "{device}");
    }
    assert_eq!(replayed(&operant, "cartpole", &["cuda"], ""), "");
    // One program for each architecture.
    let kept = operant.info()["kernel_cache"].clone();
    assert_eq!(kept["directory"], cache.join("kernels").to_str().expect("text"));
    assert!(kept["kernels"].as_u64().is_some_and(|kernels| (1..=2).contains(&kernels)), "{kept}");
}

#[test]
fn an_invalid_line_is_named_and_the_lines_before_it_are_played() {
    let Some(operant) = Operant::with_stand_in("a bad line") else { return };
    for bad in ["{\"state\":[0],\"actions\":[]}", "{\"state\":[0,0,0,0],\"actions\":[7]}", "nonsense"] {
        let input = format!("{CASE}\n{CASE}{bad}\n{CASE}");
        let finished =
            |device| operant.run(&["replay", "cartpole", "--precision", "f32", "--device", device], &input);
        let (scalar, gpu) = (finished("scalar"), finished("cuda"));
        assert_eq!((scalar.code, scalar.stdout.lines().count()), (Some(2), 2), "{scalar:#?}");
        assert!(scalar.stderr.contains("where: standard input, line 4"), "{scalar:#?}");
        assert_eq!((gpu.code, gpu.stdout, gpu.stderr), (scalar.code, scalar.stdout, scalar.stderr));
    }
}

#[test]
fn a_gpu_that_fails_is_not_a_usage_error() {
    let Some(operant) = Operant::with_stand_in("a GPU that fails") else { return };
    // 1 MiB of memory, and 500 cases that need more.
    let actions = ["1"; 100].join(",");
    let cases = format!("{{\"state\":[0,0,0,0],\"actions\":[{actions}]}}\n").repeat(500);
    let finished = operant.run(&["replay", "cartpole", "--device", "cuda:3"], &cases);
    finished.assert_error(1, &["has no room for", "ask for less"]);

    // The fourth launch is lost, and with it the fourth batch; three are printed.
    let actions = ["1", "0"].repeat(250).join(",");
    let cases = format!("{{\"state\":[0,0,0,0],\"actions\":[{actions}]}}\n").repeat(4 * 600);
    let finished = operant.run(&["replay", "cartpole", "--device", "cuda:5"], &cases);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("CUDA_ERROR_") && finished.stderr.contains("remedy: "),
        "{}",
        finished.stderr
    );
    let whole = finished.stdout.lines().count();
    assert!(whole > 600 && whole < 4 * 600, "{whole} lines");
}

#[test]
fn many_lines_are_played_batch_by_batch() {
    let Some(operant) = Operant::with_stand_in("many lines") else { return };
    // Long cases make batches of some 500 of them; the last one is smaller.
    let actions = ["1", "0"].repeat(250).join(",");
    let cases: String = (0..1_100)
        .map(|case| format!("{{\"state\":[0,0,{},0],\"actions\":[{actions}]}}\n", f64::from(case) * 1e-5))
        .collect();
    let expected = replayed(&operant, "cartpole", &["scalar"], &cases);
    assert_eq!(replayed(&operant, "cartpole", &["cuda"], &cases), expected);
}
