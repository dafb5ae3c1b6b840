//! `operant export`: what it writes, and what it refuses.

use crate::common::Sandbox;

fn trained(place: &Sandbox) {
    let args =
        ["train", "cartpole", "--steps", "4096", "--name", "mine", "--quiet", "--set", "eval_episodes=1"];
    assert_eq!(place.operant(&args).code, Some(0));
}

#[test]
fn both_formats_are_written_and_name_the_run() {
    let place = Sandbox::new();
    trained(&place);
    let exported =
        place.operant(&["export", "mine", "--onnx", "policy.onnx", "--safetensors", "policy.safetensors"]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    assert!(exported.stdout.contains("policy.onnx: the policy of run mine (cartpole) at 4096 steps"));
    let read = |file: &str| std::fs::read(place.path().join(file)).expect("written");
    let (onnx, safetensors) = (read("policy.onnx"), read("policy.safetensors"));
    let contains = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    for text in ["Gemm", "ArgMax", "actor.0.weight", "\"environment\":\"cartpole\""] {
        assert!(contains(&onnx, text), "{text}");
    }
    // A header of JSON: its length in eight bytes, then each array's type, shape and place.
    let length = u64::from_le_bytes(safetensors[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&safetensors[8..8 + length]).expect("JSON");
    assert_eq!(header["policy.weight"]["shape"], serde_json::json!([2, 64]));
    let about = header["__metadata__"]["operant"].as_str().expect("text");
    assert!(about.contains("\"run\":\"mine\""), "{about}");

    // The same checkpoint by its path, over the first file.
    let checkpoint = place.path().join("runs/mine/checkpoints/step_000000004096");
    let again = place.operant(&["export", &checkpoint.to_string_lossy(), "--onnx", "policy.onnx"]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    assert!(read("policy.onnx") == onnx);
}

#[test]
fn nothing_is_written_where_something_is_wrong() {
    let place = Sandbox::new();
    place.operant(&["export", "mine", "--onnx", "m.onnx"]).assert_error(2, &["there is no run", "mine"]);
    trained(&place);
    place.operant(&["export", "mine"]).assert_error(2, &["needs a file", "--onnx FILE"]);
    let nowhere = place.operant(&["export", "mine", "--onnx", "absent/m.onnx"]);
    nowhere.assert_error(1, &["cannot be written", "where: absent/m.onnx"]);
    place.write("taken", "");
    place.operant(&["export", "mine", "--safetensors", "runs"]).assert_error(1, &["where: runs"]);
    assert!(!place.path().join("m.onnx").exists());
}

#[test]
fn a_page_is_one_file_with_the_name_of_the_run() {
    let place = Sandbox::new();
    trained(&place);
    let exported = place.operant(&["export", "mine", "--html", "mine.html"]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    assert!(
        exported.stdout.contains("mine.html: the policy of run mine (cartpole) at 4096 steps"),
        "{exported:#?}"
    );
    let page = std::fs::read_to_string(place.path().join("mine.html")).expect("written");
    for part in [
        "<title>mine plays cartpole</title>",
        "PPO, 4.1k steps of training, mean return",
        "id=\"player-runtime\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let nowhere = place.operant(&["export", "mine", "--html", "absent/m.html"]);
    nowhere.assert_error(1, &["the page cannot be written", "where: absent/m.html"]);
    // The report of the run has the same player, unless it is left out.
    for (flags, is_there) in [(&[][..], true), (&["--no-player"], false)] {
        let args = [&["report", "mine", "--html", "report.html"], flags].concat();
        assert_eq!(place.operant(&args).code, Some(0));
        let report = std::fs::read_to_string(place.path().join("report.html")).expect("written");
        assert_eq!(report.contains("The best run plays: mine"), is_there);
        assert_eq!(report.contains("id=\"player-runtime\""), is_there);
    }
}

#[test]
fn a_c_file_is_written_with_its_sizes_and_what_int8_costs() {
    let place = Sandbox::new();
    trained(&place);
    let exported = place.operant(&["export", "mine", "--c", "policy.h", "--int8"]);
    assert_eq!(exported.code, Some(0), "{exported:#?}");
    for part in
        ["policy.h: the policy of run mine", " kB of constants", "int8: the same action in ", "mean return"]
    {
        assert!(exported.stdout.contains(part), "{part}: {exported:#?}");
    }
    let text = std::fs::read_to_string(place.path().join("policy.h")).expect("written");
    assert!(text.contains("static const int8_t policy_actor_1_weight[4096]"));
    assert!(text.contains("Weights are int8, with a scale for each output: the same action in"));
    let named = ["export", "mine", "--c", "m.h", "--onnx", "m.onnx", "--c-name", "2"];
    place.operant(&named).assert_error(2, &["\"2\" is not a name in C"]);
    for alone in [&["--int8"][..], &["--c-name", "quad"]] {
        let args = [&["export", "mine", "--onnx", "m.onnx"], alone].concat();
        let refused = place.operant(&args);
        assert!(refused.code == Some(2) && refused.stderr.contains("--c <FILE>"), "{refused:#?}");
    }
    assert!(!place.path().join("m.h").exists() && !place.path().join("m.onnx").exists());
}

#[test]
fn links_pipes_and_devices_stay_what_they_are() {
    let place = Sandbox::new();
    trained(&place);
    let at = |name: &str| place.path().join(name);
    for (link, to) in [("out", "/dev/stdout"), ("null", "/dev/null"), ("link.onnx", "file.onnx")] {
        std::os::unix::fs::symlink(to, at(link)).expect("linked");
    }
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo").success());
    let pipe = at("pipe");
    let reader = std::thread::spawn(move || std::fs::read(pipe).expect("read"));
    for file in ["link.onnx", "null", "pipe"] {
        let exported = place.operant(&["export", "mine", "--onnx", file]);
        assert_eq!(exported.code, Some(0), "{exported:#?}");
    }
    let onnx = std::fs::read(at("file.onnx")).expect("the link's file is made");
    assert!(reader.join().expect("ended") == onnx);
    let exported = place.command(&["export", "mine", "--onnx", "out"]).output().expect("started");
    assert!(exported.status.success() && exported.stdout.starts_with(&onnx), "{:?}", exported.status);
    for link in ["out", "null", "link.onnx"] {
        assert!(std::fs::symlink_metadata(at(link)).expect("there").is_symlink(), "{link}");
    }
}
