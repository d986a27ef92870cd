//! Runs the paging benchmarks with other constants, to fit them: NAME=VALUE.

fn main() {
    let mut vax = weir_model::machine::Machine::named("vax780").expect("a machine");
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        vax.constants.get_mut(name).expect("a constant").value = value.parse().expect("a number");
    }
    println!("{}", weir_model::joy::paging::run(&vax).expect("a whole machine").text());
}
