//! The example programs, run as their comments say.

#[path = "../../weir/tests/common/examples.rs"]
mod examples;

use examples::{example, place, said, sum, wait_for};

#[test]
fn an_mpx_with_many_channels() {
    let (_directory, path) = place("mpx");
    let owning = example("mpx_owner").arg(&path).arg("--check").spawn().expect("started");
    wait_for(&path);
    let mut sending = example("mpx_peer");
    let counts = ["--channels", "300", "--records", "50", "--bytes", "1000", "--check"];
    let sending = sending.arg(&path).args(counts).spawn().expect("started");
    let (sent, received) = (said(sending), said(owning));
    assert!(sum(&sent).is_some() && sum(&sent) == sum(&received), "{sent}{received}");
    assert!(received.contains("300 channels ended, of which 0 died"), "{received}");
}

#[test]
fn requests_are_answered() {
    let text = said(example("request_reply").spawn().expect("started"));
    assert!(text.contains("2 clients had 100 replies each"), "{text}");
}
