//! Nothing is allocated once a pool and its streams exist: the caller may be handling a page fault.

use weir_policy::pool::{Action, PoolEvent, PoolPolicy, PoolSettings, Rule};

const STREAMS: u32 = 8;

/// Transfers under way, in the order they were begun.
struct UnderWay {
    numbers: [u32; 16],
    count: usize,
}

fn on(pool: &mut PoolPolicy, under_way: &mut UnderWay, now_ns: u64, event: PoolEvent) {
    pool.on(now_ns, event);
    while let Some(action) = pool.action() {
        match action {
            Action::Grant { stream, .. } => on(pool, under_way, now_ns, PoolEvent::Seal(stream)),
            Action::Show { stream, .. } => on(pool, under_way, now_ns, PoolEvent::Consumed(stream)),
            Action::Ready(stream) => on(pool, under_way, now_ns, PoolEvent::Want(stream)),
            Action::Begin(transfer) => {
                under_way.numbers[under_way.count] = transfer;
                under_way.count += 1;
            }
            Action::Fail { .. } | Action::Trouble(_) => {}
        }
    }
}

#[test]
fn no_event_allocates() {
    for rule in Rule::ALL {
        let settings = PoolSettings { frames: 300, slots: 5_000, cluster: 4, transfers: 16, rule };
        let mut pool = PoolPolicy::new(settings).expect("memory");
        (0..STREAMS).for_each(|_| _ = pool.open(0));
        let mut under_way = UnderWay { numbers: [0; 16], count: 0 };
        let used = allocation_counter::measure(|| {
            for round in 0..20_000_u64 {
                let stream = (round * 7 % u64::from(STREAMS)) as u32;
                let event = match round % 5 {
                    0..3 => PoolEvent::Append(stream),
                    _ if round > 8_000 => PoolEvent::Want(stream),
                    _ => PoolEvent::Append(stream),
                };
                on(&mut pool, &mut under_way, round * 1_000_000, event);
                if under_way.count > 0 && (round % 3 == 0 || under_way.count > 8) {
                    under_way.count -= 1;
                    let transfer = under_way.numbers[under_way.count];
                    // Some fail.
                    let fault = (round % 64 == 0).then_some(5);
                    let done = PoolEvent::Done { transfer, fault };
                    on(&mut pool, &mut under_way, round * 1_000_000, done);
                }
            }
        });
        let counts = pool.counts();
        assert!(counts.spilled > 100 && counts.consumed > 100, "{rule:?}: {counts:?}");
        assert_eq!(used.count_total, 0, "{rule:?}: {used:?}");
    }
}
