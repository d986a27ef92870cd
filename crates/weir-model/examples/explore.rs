//! Explores.
use weir_model::bbn::{cache::Rules, pipe::Test, run::*, Costs};
use weir_model::disk::Geometry;
use weir_model::kernel::{Discipline, V6};
fn main() {
    let env = |k: &str, d: f64| std::env::var(k).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let us = |k: &str, d: f64| (env(k, d) * 1e3) as u64;
    let costs = Costs { call_ns: us("CALL", 1300.), port_ns: us("PORT", 150.), block_ns: us("BLOCK", 1850.), byte_ns: us("BYTE", 5.8), disk_ns: us("DISK", 500.), interrupt_ns: us("INTR", 400.), cancel_ns: us("CANCEL", 200.), user_ns: us("USER", 150.), check_ns: us("CHECK", 32.), start_ns: us("START", 1e6) };
    let disk = Geometry { rpm: 1500., sectors_per_cylinder: 24, sectors_per_track: 12, seek_track_ms: 10., seek_average_ms: 50., seek_full_ms: 85., cylinders: 203 };
    let stride = env("STRIDE", 1000.) as u64;
    let blocks = (0..8u64).map(|i| 100 + (i * stride) % 4007).collect();
    let setup = Setup { costs, discipline: Discipline::V6(V6 { hz: 60, switch_ns: us("SWITCH", 1000.), scan_ns: 0, wake_preempts: env("PREEMPT", 1.) > 0. }), disk, buffers: env("NBUF", 13.) as usize, blocks };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/");
    for (name, port, headers) in [("bbn_1978_pipe_1140", false, false), ("bbn_1978_port_1140", true, true), ("bbn_1978_port_bare_1140", true, false)] {
        println!("{name}");
        let text = std::fs::read_to_string(format!("{root}{name}.csv")).unwrap();
        for line in text.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit())) {
            let f: Vec<f64> = line.split(',').map(|x| x.parse().unwrap()).collect();
            let t = Test { blocks: 1000, bytes: f[0] as usize, port, headers };
            let imp = Rules { delay: true, cancel: true, avoid_dirty: true, detach: env("DETACH", 0.) > 0. };
            let show = |o: Times, real: f64, sys: f64, user: Option<f64>| { let e = |m: f64, p: f64| (m / p - 1.) * 100.; print!("  {real:5} {:6.1} {:+4.0}% | {sys:5} {:5.1} {:+4.0}%", o.real_s, e(o.real_s, real), o.system_s, e(o.system_s, sys)); if let Some(u) = user { print!(" | u{u:5} {:5.1}", o.user_s) } print!(" r{} w{} ||", o.disk.0, o.disk.1) };
            print!("{:5}", f[0]);
            match (port, headers) {
                (false, _) => { show(run(&setup, Rules::default(), t), f[1], f[2], None); show(run(&setup, imp, t), f[3], f[4], None) }
                (true, true) => { show(run(&setup, Rules::default(), t), f[1], f[3], Some(f[2])); show(run(&setup, imp, t), f[4], f[6], Some(f[5])) }
                _ => show(run(&setup, imp, t), f[3], f[4], None),
            }
            println!();
        }
    }
}
