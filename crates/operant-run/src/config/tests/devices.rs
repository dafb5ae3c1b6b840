//! Tests of what a configuration has for each device.

use super::*;

#[test]
fn the_number_of_environments_may_be_left_to_the_device() {
    let nothing = CommandLine::default();
    let preset = valid(&[]).settings.learner.num_envs;
    let flag = CommandLine { flags: vec![("num_envs", "--envs", "auto".into())], ..nothing.clone() };
    for (requested, origin) in [
        (with_files("num_envs = \"auto\"", "", &nothing, &[]), "user.toml:1"),
        (in_file("[cartpole]\nnum_envs = \"auto\""), "operant.toml:2"),
        (with_files("", "", &nothing, &[("OPERANT_NUM_ENVS", "auto")]), "OPERANT_NUM_ENVS"),
        (with_files("", "", &set(&["num_envs=auto"]), &[]), "--set"),
        (with_files("", "", &flag, &[]), "--envs"),
    ] {
        let requested = requested.expect("valid");
        assert!(requested.num_envs_is_open() && requested.settings.num_envs_chosen().is_none());
        assert!(requested.origin("num_envs").expect("an origin").to_string().ends_with(origin));
        assert!(requested.to_toml(false).contains("num_envs = \"auto\"\n"), "{}", requested.to_toml(false));
        // The layers below apply if the device does not choose.
        assert_eq!(requested.settings.learner.num_envs, preset);
        let on_cpu = requested.resolve(None).expect("the preset's fit");
        assert_eq!(on_cpu.learner.num_envs, preset);
        assert!(on_cpu.to_saved_toml().contains(&format!("\nnum_envs = {preset}\n")));

        let on_gpu = requested.on_gpu().expect("valid");
        assert!(on_gpu.num_envs_is_open());
        let on_gpu = on_gpu.resolve(Some((4224, "as many as fit".into()))).expect("they fit");
        assert_eq!((on_gpu.learner.num_envs, on_gpu.num_envs_chosen()), (4224, Some("as many as fit")));
        let saved = on_gpu.to_saved_toml();
        assert!(saved.contains("# auto chose num_envs = 4224: as many as fit.\n"), "{saved}");
        assert!(saved.contains("\nnum_envs = 4224\n"), "{saved}");
    }
    // If a number is given, the device does not choose.
    let fixed = valid(&["num_envs=64"]);
    assert_eq!(fixed.resolve(Some((1, "why".into()))).expect("valid").learner.num_envs, 64);
    // A batch that does not divide is detected once there is a number.
    let line = set(&["num_envs=auto", "num_minibatches=7"]);
    let open = with_files("", "", &line, &[]).expect("nothing to divide yet");
    open.resolve(Some((64, "why".into()))).expect_err("7 does not divide it");
    // A number in a higher layer replaces `auto`, and a resumed run keeps its own.
    let line = CommandLine { set: vec!["num_envs=64".into()], ..nothing.clone() };
    assert!(!with_files("num_envs = \"auto\"", "", &line, &[]).expect("valid").num_envs_is_open());
    let resumed = Some(("old", "num_envs = 16"));
    let nowhere = &nowhere();
    let requested =
        layered(facts(), &nothing, resumed, None, nowhere, [("OPERANT_NUM_ENVS".into(), "auto".into())]);
    let requested = requested.expect("valid");
    assert!(!requested.num_envs_is_open() && requested.settings.learner.num_envs == 16);
    let requested = layered(facts(), &flag, resumed, None, nowhere, []).expect("valid");
    let requested = requested.resuming("num_envs = 16", "old").expect("auto asks for no other number");
    assert!(!requested.num_envs_is_open());
    assert_eq!(requested.resolve(None).expect("its own").learner.num_envs, 16);

    let error = error_of(&set(&["num_envs=many"]));
    assert!(error.remedy.expect("a remedy").contains("auto"));
    assert!(error_of(&set(&["num_steps=auto"])).what.contains("not a whole number"));
}

#[test]
fn overlap_needs_a_gpu() {
    let error = error_of(&set(&["device=cpu", "overlap=true"]));
    assert!(error.what.contains("overlap = true needs a GPU"), "{error}");
    for device in ["cuda", "auto"] {
        let requested = with_files("", "", &set(&["overlap=true", &format!("device={device}")]), &[]);
        let requested = requested.expect("a GPU may be there");
        assert!(requested.settings.run.overlap && requested.on_cpu().is_err());
    }
    assert!(!valid(&[]).settings.run.overlap);
}

#[test]
fn a_device_overrides_files_but_not_the_command_line() {
    let file = "precision = \"tf32\"\noverlap = true\n";
    let requested = with_files("", file, &set(&["device=cpu"]), &[]).expect("the CPU has others");
    assert_eq!((requested.settings.run.precision, requested.settings.run.overlap), (Precision::F32, false));
    let overridden = requested.overridden().expect("an explanation");
    let [precision, overlap] = [
        "the CPU has no precision = \"tf32\" (no CPU has tf32), which ",
        "operant.toml:2 requests: it is false",
    ];
    assert!(
        overridden.contains(precision) && overridden.contains(overlap) && !overridden.contains('\n'),
        "{overridden}"
    );
    assert!(requested.to_toml(true).contains("# the CPU has no precision"), "`config` shows it");
    // A GPU supports both, and nothing is overridden.
    let requested = with_files("", file, &set(&["device=cuda"]), &[]).expect("valid");
    assert_eq!((requested.settings.run.precision, requested.settings.run.overlap), (Precision::Tf32, true));
    assert_eq!(requested.overridden(), None);
    let variable = [("OPERANT_PRECISION", "tf32")];
    let requested = with_files("", "", &set(&["device=cpu"]), &variable).expect("valid");
    assert_eq!(requested.settings.run.precision, Precision::F32);
    // A run that trained in tf32 continues on a device without it.
    let saved = with_files("", file, &set(&["device=cuda"]), &[]).expect("valid").settings.to_saved_toml();
    let line = set(&["device=cpu"]);
    let resumed = layered(facts(), &line, Some(("old", &saved)), None, &nowhere(), []);
    assert_eq!(resumed.expect("valid").settings.run.precision, Precision::F32);
}

#[test]
fn a_cpu_trains_in_bf16_if_it_can() {
    let from_file = with_files("", "precision = \"bf16\"", &set(&["device=cpu"]), &[]).expect("valid");
    let from_line = with_files("", "", &set(&["device=cpu", "precision=bf16"]), &[]);
    match unit_for(Precision::Bf16) {
        Ok(unit) => {
            assert!(unit.is_some());
            assert_eq!(from_file.settings.run.precision, Precision::Bf16);
            assert_eq!(from_line.expect("this CPU has it").settings.run.precision, Precision::Bf16);
        }
        Err(reason) => {
            assert_eq!(from_file.settings.run.precision, Precision::F32);
            assert!(from_file.overridden().expect("an explanation").contains(reason));
            let error = from_line.expect_err("refused");
            assert!(error.what.contains(reason) && error.remedy.expect("a remedy").contains("f32"));
        }
    }
}

#[test]
fn devices_may_be_named_in_order() {
    for order in ["cuda:1,cuda:0,cpu", "cuda, cpu", "cuda:3,cuda:2"] {
        let requested = with_files("", "", &set(&[&format!("device={order}"), "precision=bf16"]), &[]);
        assert!(
            matches!(requested.expect("valid").settings.run.device, DeviceRequest::FirstOf(_)),
            "{order}"
        );
    }
    for order in ["cpu,cuda", "auto,cpu", "cuda,,cpu", "cuda,tpu", ","] {
        let error = error_of(&set(&[&format!("device={order}")]));
        assert!(error.what.contains("is not a device"), "{order}: {error}");
    }
}
