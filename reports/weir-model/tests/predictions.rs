//! The committed predictions are what the model says.

use std::path::Path;

#[test]
fn the_committed_predictions_are_what_the_model_says() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/predictions");
    let made = weir_model::catalogue::predictions().expect("whole machines");
    for (name, text) in &made {
        let committed = std::fs::read_to_string(dir.join(name)).expect("a committed prediction");
        assert_eq!(
            &committed, text,
            "{name}: run weir model predictions --out reports/data/predictions"
        );
    }
    let files = std::fs::read_dir(dir).expect("the folder").count();
    assert_eq!(files, made.len(), "files that nothing predicts");
}

#[test]
fn an_experiment_gives_the_same_bytes_again() {
    for experiment in &weir_model::catalogue::EXPERIMENTS {
        let text = || experiment.run(None).expect("a whole machine").text();
        assert_eq!(text(), text(), "{}", experiment.name);
    }
}
