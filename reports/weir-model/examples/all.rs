//! Prints all experiments, and writes the predictions into the folder that is named.

fn main() {
    for experiment in &weir_model::catalogue::EXPERIMENTS {
        println!("{}", experiment.run(None).expect("a whole machine").text());
    }
    let Some(dir) = std::env::args().nth(1) else { return };
    for (name, text) in weir_model::catalogue::predictions().expect("whole machines") {
        std::fs::write(std::path::Path::new(&dir).join(name), text).expect("a folder");
    }
}
