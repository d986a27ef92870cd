//! What a region's policy promises, against a naive reference, and the sizes that its clusters take.

mod paging_world;

use paging_world::World;
use weir_policy::paging::sharing::{self, ShareFacts};
use weir_policy::paging::swapping::{
    self, Exchange, Interval, Rotation, RotationFacts, SwapFacts, Thrashing,
};
use weir_policy::paging::{
    Advice, LEAST_FRAMES, PageReplacement, PagingAction, PagingPolicy, PagingSettings, Run, Touch,
};

const PAGES: u32 = 2048;

fn settings(frames: u32) -> PagingSettings {
    PagingSettings {
        pages: PAGES,
        frames,
        most_cluster: 32,
        replacement: PageReplacement::Clock,
        looks: false,
        starts_filed: false,
    }
}

/// An order of touches.
#[derive(Clone, Copy, Debug)]
enum Order {
    Sequential,
    Random,
    Walk(u32),
}

struct Toucher {
    order: Order,
    at: u32,
}

impl Toucher {
    fn next(&mut self, world: &mut World) -> u32 {
        self.at = match self.order {
            Order::Sequential => (self.at + 1) % PAGES,
            Order::Random => world.below(u64::from(PAGES)) as u32,
            Order::Walk(deviation) => {
                let sum: i64 = (0..12).map(|_| world.below(1000) as i64).sum();
                let step = (sum - 5994) * i64::from(deviation) / 1000;
                (i64::from(self.at) + step).clamp(0, i64::from(PAGES) - 1) as u32
            }
        };
        self.at
    }
}

fn run(world: &mut World, order: Order, references: u32) {
    let mut toucher = Toucher { order, at: PAGES / 2 };
    for _ in 0..references {
        let page = toucher.next(world);
        assert!(world.touch(page, true));
    }
}

/// One instruction that touches a page and the next one needs both at a time. In a sweep each displaced
/// the other, and it never ended.
#[test]
fn an_access_across_two_pages_meets_both() {
    for rule in PageReplacement::ALL {
        for advice in [Advice::Normal, Advice::Sequential, Advice::Random] {
            for frames in [LEAST_FRAMES, 11, 40] {
                let settings =
                    PagingSettings { looks: true, replacement: rule, ..settings(frames) };
                let mut world = World::new(settings);
                world.policy.advise(advice);
                let mut toucher = Toucher { order: Order::Sequential, at: 0 };
                for round in 0..10_000 {
                    match world.below(40) {
                        0 => toucher.order = Order::Sequential,
                        1 => toucher.order = Order::Random,
                        2 => toucher.order = Order::Walk(world.below(60) as u32),
                        3 => world.policy.sweep(true),
                        4 => world.policy.sweep(false),
                        _ => {}
                    }
                    let page = toucher.next(&mut world).min(PAGES - 2);
                    let writes = world.below(2) == 0;
                    let (mut faults, both) = (0, [page, page + 1]);
                    while let Some(missing) = both.into_iter().find(|at| !world.reaches(*at)) {
                        assert!(world.touch(missing, writes));
                        faults += 1;
                        assert!(
                            faults < 20,
                            "{rule:?}, {advice:?}, {frames} frames, round {round}, page {page}"
                        );
                    }
                }
            }
        }
    }
}

/// Touches pages in all orders and with all advice, and checks each against what was written last.
fn touch_all_ways(world: &mut World, references: u32) {
    let mut toucher = Toucher { order: Order::Sequential, at: 0 };
    for at in 0..references {
        match world.below(400) {
            0 => toucher.order = Order::Sequential,
            1 => toucher.order = Order::Random,
            2 => toucher.order = Order::Walk(world.below(60) as u32),
            3 => world.policy.advise(Advice::Sequential),
            4 => world.policy.advise(Advice::Random),
            5..8 => world.policy.advise(Advice::Normal),
            8 => world.policy.sweep(true),
            9 | 10 => world.policy.sweep(false),
            11 => world.policy.let_go(Run { first: toucher.at / 2, count: 20 }),
            12 => _ = world.policy.bring_ahead(toucher.at),
            13 if at % 3 == 0 => world.flush(),
            _ => {}
        }
        world.act();
        let page = toucher.next(world);
        let writes = world.below(3) > 0;
        assert!(world.touch(page, writes), "reference {at}");
    }
}

#[test]
fn what_is_read_is_what_was_written_last_and_memory_stays_within_its_budget() {
    for looks in [false, true] {
        for replacement in PageReplacement::ALL {
            for frames in [LEAST_FRAMES, LEAST_FRAMES + 3, 64, 500] {
                let settings = PagingSettings { replacement, looks, ..settings(frames) };
                let mut world = World::new(settings);
                touch_all_ways(&mut world, 6_000);
                world.flush();
                world.check_file();
                let counts = world.policy.counts();
                assert!(counts.read > 0 && counts.written > 0, "{counts:?}");
                assert!(world.policy.frames_used().1 <= frames);
            }
        }
    }
}

#[test]
fn transfers_that_fail_lose_nothing() {
    for looks in [false, true] {
        let mut world = World::new(PagingSettings { looks, ..settings(40) });
        world.failing = 7;
        touch_all_ways(&mut world, 6_000);
        world.failing = 0;
        world.flush();
        world.check_file();
    }
}

#[test]
fn when_no_write_succeeds_a_touch_fails_and_what_is_in_memory_stays() {
    let mut world = World::new(settings(64));
    world.failing = 1;
    let touched = (0..200).filter(|page| world.touch(*page, true)).count();
    assert_eq!(touched, 64, "as many as there are frames");
    (0..64).for_each(|page| assert!(world.touch(page, false), "page {page} is in memory"));
    world.failing = 0;
    assert!(world.touch(100, true), "it goes on when writing succeeds again");
}

#[test]
fn a_cluster_follows_what_is_used() {
    for looks in [false, true] {
        for share in [4, 2] {
            let mut world = World::new(PagingSettings { looks, ..settings(PAGES / share) });
            (0..PAGES).for_each(|page| assert!(world.touch(page, true)));
            let mut ends_at = |order, references| {
                run(&mut world, order, references);
                world.policy.cluster()
            };
            assert_eq!(ends_at(Order::Random, 4_000), 1, "random touches, from large clusters");
            assert_eq!(ends_at(Order::Sequential, 1_000), 32, "from small ones");
            assert_eq!(ends_at(Order::Random, 4_000), 1);
            assert!(ends_at(Order::Walk(8), 6_000) >= 16, "a walk stays close");
        }
    }
}

/// Pieces of 16 pages of a file, touched in a random order while memory is free: what comes unasked
/// displaces nothing, so it comes from the first fault on, however late it is used.
#[test]
fn first_touches_bring_their_neighbours() {
    for looks in [false, true] {
        let settings = PagingSettings { starts_filed: true, looks, ..settings(PAGES) };
        let mut world = World::new(settings);
        world.file.extend((0..PAGES).map(|page| (page, 0)));
        let mut order: Vec<u32> = (0..PAGES).filter(|page| page / 16 % 2 == 0).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, world.below(at as u64 + 1) as usize);
        }
        order.iter().for_each(|page| assert!(world.touch(*page, false)));
        let counts = world.policy.counts();
        assert!(counts.reads * 12 < order.len() as u64, "{counts:?}");
    }
}

#[test]
fn a_region_that_fits_stays_in_memory() {
    for looks in [false, true] {
        let mut world = World::new(PagingSettings { looks, ..settings(PAGES) });
        (0..3 * PAGES).for_each(|page| assert!(world.touch(page % PAGES, true)));
        let counts = world.policy.counts();
        assert_eq!((counts.read, counts.written), (0, 0), "{counts:?}");
    }
}

/// A reader in order waits for few clusters: the next one is read while it uses one.
#[test]
fn a_sequence_is_read_ahead_of_its_touches() {
    for looks in [false, true] {
        let settings = PagingSettings { starts_filed: true, looks, ..settings(PAGES / 2) };
        let mut world = World::new(settings);
        world.file.extend((0..PAGES).map(|page| (page, 0)));
        (0..3 * PAGES).for_each(|page| assert!(world.touch(page % PAGES, false)));
        let counts = world.policy.counts();
        assert!(counts.hard * 4 < counts.reads, "{counts:?}");
        // A clock lets some of them go before their first touch.
        assert!(counts.read < u64::from(3 * PAGES * 9 / 8), "{counts:?}");
    }
}

/// The faults of an order, at a quarter of the memory, once the cluster has settled.
fn faults(order: Order, settings: PagingSettings, advice: Advice) -> u64 {
    let mut world = World::new(settings);
    world.policy.advise(advice);
    (0..PAGES).for_each(|page| assert!(world.touch(page, true)));
    run(&mut world, order, 2_000);
    let before = world.policy.counts().hard;
    run(&mut world, order, 6_000);
    world.policy.counts().hard - before
}

#[test]
fn clusters_save_faults_where_touches_lie_close_and_cost_few_where_they_do_not() {
    let settings = settings(PAGES / 4);
    let against = |order| {
        let alone = faults(order, settings, Advice::Random);
        (faults(order, settings, Advice::Normal), alone)
    };
    let (clusters, alone) = against(Order::Sequential);
    assert!(clusters * 30 < alone, "{clusters} of {alone}");
    let (clusters, alone) = against(Order::Walk(15));
    assert!(clusters * 4 < alone, "{clusters} of {alone}");
    let (clusters, alone) = against(Order::Random);
    assert!(clusters * 10 < alone * 11, "{clusters} of {alone}");
}

#[test]
fn dirty_neighbours_are_written_together() {
    let mut world = World::new(settings(PAGES / 4));
    run(&mut world, Order::Sequential, 3 * PAGES);
    let counts = world.policy.counts();
    assert!(counts.written > 16 * counts.writes, "{counts:?}");
}

#[test]
fn clean_pages_are_not_written_again() {
    for looks in [false, true] {
        let mut world = World::new(PagingSettings { looks, ..settings(PAGES / 4) });
        (0..PAGES).for_each(|page| assert!(world.touch(page, true)));
        world.flush();
        let before = world.policy.counts().written;
        (0..2 * PAGES).for_each(|page| assert!(world.touch(page % PAGES, false)));
        assert_eq!(world.policy.counts().written, before);
    }
}

#[test]
fn empty_pages_are_not_read() {
    let mut world = World::new(settings(64));
    (0..PAGES).for_each(|page| assert!(world.touch(page, false)));
    let counts = world.policy.counts();
    assert_eq!((counts.read, counts.written), (0, 0));
}

/// Babaoglu and Joy: a page that was touched since the hand passed stays, and others go.
#[test]
fn a_clock_keeps_what_is_touched_often() {
    let kept = |replacement| {
        let mut world = World::new(PagingSettings { replacement, ..settings(256) });
        world.policy.advise(Advice::Random);
        let before = world.policy.counts().hard;
        for round in 0..8_000 {
            // Half of the touches go to 100 pages.
            let page = if round % 2 == 0 { world.below(100) } else { 100 + world.below(1900) };
            assert!(world.touch(page as u32, true));
        }
        world.policy.counts().hard - before
    };
    assert!(kept(PageReplacement::Clock) * 100 < kept(PageReplacement::Fifo) * 97);
}

#[test]
fn a_page_on_its_way_out_is_reclaimed_without_a_read() {
    let mut policy = PagingPolicy::new(settings(64)).expect("memory");
    policy.advise(Advice::Random);
    let mut writes = Vec::new();
    for page in 0.. {
        if !policy.bring(page) {
            break;
        }
        while let Some(action) = policy.action() {
            match action {
                PagingAction::Zero(run) => policy.came(run, true),
                PagingAction::Write(run) => writes.push(run),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(policy.touch(page, true), Touch::Here);
    }
    for page in writes.iter().flat_map(Run::pages) {
        assert_eq!(policy.touch(page, false), Touch::Here, "its write has not ended");
    }
    let counts = policy.counts();
    assert!(counts.reclaimed > 0 && counts.read == 0, "{counts:?}");
    for run in writes {
        policy.written(run, true);
        assert!(run.pages().all(|page| policy.is_here(page)), "it stays");
    }
    assert!(policy.action().is_none());
}

#[test]
fn a_sweep_displaces_little() {
    let read_again = |sweeps: bool| {
        let mut world = World::new(settings(256));
        (0..PAGES).for_each(|page| assert!(world.touch(page, true)));
        let working_set = 0..150;
        (0..3).for_each(|_| working_set.clone().for_each(|page| assert!(world.touch(page, true))));
        world.policy.sweep(sweeps);
        // A collector looks at the whole heap.
        (0..PAGES).for_each(|page| assert!(world.touch(page, false)));
        world.policy.sweep(false);
        let before = world.policy.counts().read;
        working_set.clone().for_each(|page| assert!(world.touch(page, true)));
        world.policy.counts().read - before
    };
    let (with, without) = (read_again(true), read_again(false));
    assert!(
        with * 2 <= without && without > 0,
        "{with} pages read after a sweep, {without} without"
    );
}

#[test]
fn no_event_allocates() {
    let mut policy = PagingPolicy::new(settings(300)).expect("memory");
    let used = allocation_counter::measure(|| {
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
            let page = (random >> 33) as u32 % PAGES;
            while policy.touch(page, random & 1 == 0) != Touch::Here {
                policy.bring(page);
                while let Some(action) = policy.action() {
                    match action {
                        PagingAction::Read(run) | PagingAction::Zero(run) => policy.came(run, true),
                        PagingAction::Write(run) => policy.written(run, random & 62 != 0),
                        PagingAction::Look(run) => policy.looked(run, 5),
                        PagingAction::Drop(_) => {}
                    }
                }
            }
        }
    });
    assert!(policy.counts().written > 1_000, "{:?}", policy.counts());
    assert_eq!(used.count_total, 0, "{used:?}");
}

#[test]
fn the_oldest_of_the_largest_regions_goes() {
    let region = |frames, since_ns| SwapFacts { frames, since_ns, stays: false };
    // The oldest is small, and the largest came last.
    let regions =
        [region(10, 1), region(500, 40), region(400, 20), region(450, 30), region(900, 50)];
    assert_eq!(swapping::choose(&regions, 4), Some(2));
    assert_eq!(swapping::choose(&regions, 2), Some(1));
    assert_eq!(swapping::choose(&regions, 1), Some(4));
    assert_eq!(swapping::choose(&regions, 9), Some(0));
    let stays = regions.map(|region| SwapFacts { stays: region.frames != 450, ..region });
    assert_eq!(swapping::choose(&stays, 4), Some(3));
    assert_eq!(swapping::choose(&[region(0, 1)], 4), None);
    assert_eq!(swapping::choose(&[], 4), None);
}

#[test]
fn thrashing_is_waiting_for_what_has_just_gone_twice_in_a_row() {
    let bad = Interval { ns: 100, waited_ns: 150, threads: 2, hard: 10, again: 8 };
    let mut thrashing = Thrashing::default();
    let said: Vec<bool> = (0..6).map(|_| thrashing.interval(bad)).collect();
    assert_eq!(said, [false, true, false, true, false, true], "at most every other interval");
    for fine in [
        Interval { waited_ns: 100, ..bad },
        Interval { again: 5, ..bad },
        Interval { hard: 0, again: 0, ..bad },
    ] {
        let mut thrashing = Thrashing::default();
        assert!(!(0..6).any(|_| thrashing.interval(fine)), "{fine:?}");
        assert!(
            ![bad, fine, bad, fine].map(|interval| thrashing.interval(interval)).contains(&true)
        );
    }
}

#[test]
fn memory_goes_from_those_who_fault_least_for_what_they_have() {
    let of = |frames, faults| ShareFacts { frames, least: 8, faults };
    // The second has twice the frames for each fault; the third has none to give.
    let regions = [of(100, 9), of(100, 4), of(8, 0)];
    assert_eq!(sharing::giver(&regions, None), Some(1));
    assert_eq!(sharing::giver(&regions, Some(0)), Some(1));
    // It does not go back before the other has half as much again.
    assert_eq!(sharing::giver(&regions, Some(1)), None);
    assert_eq!(sharing::giver(&[of(100, 9), of(120, 9)], Some(0)), None);
    assert_eq!(sharing::giver(&[of(100, 9), of(160, 9)], Some(0)), Some(1));
    assert_eq!(sharing::giver(&[of(8, 0), of(8, 5)], None), None);
    assert_eq!((sharing::gives(&of(160, 0)), sharing::gives(&of(9, 0))), (10, 1));
}

/// Regions that thrash for ever: each has its turn, and each stays in for at least a turn.
#[test]
fn regions_take_turns() {
    let rotation = Rotation { turn_ns: 10, largest: swapping::LARGEST };
    let region = RotationFacts { frames: 50, since_ns: 0, is_out: false };
    let mut regions = [region; 6];
    let mut came = [0_u32; 6];
    for now_ns in 0..1000 {
        let ins = regions.iter().filter(|region| !region.is_out).count();
        let Exchange { goes, comes } = rotation.decide(now_ns, ins > 3, 0, &regions);
        if let Some(at) = goes {
            assert!(!regions[at].is_out && (ins > 3 || now_ns - regions[at].since_ns >= 10));
            regions[at] = RotationFacts { since_ns: now_ns, is_out: true, ..region };
        }
        if let Some(at) = comes {
            assert!(regions[at].is_out && now_ns - regions[at].since_ns >= 10);
            regions[at] = RotationFacts { since_ns: now_ns, is_out: false, ..region };
            came[at] += 1;
        }
        let ins = regions.iter().filter(|region| !region.is_out).count();
        assert!((3..=6).contains(&ins), "{ins}");
    }
    assert!(came.iter().all(|came| (20..80).contains(came)), "{came:?}");
    // With room for it, a region comes in without another that goes.
    let out = RotationFacts { since_ns: 0, is_out: true, ..region };
    let exchange = rotation.decide(20, false, 50, &[out, region]);
    assert_eq!(exchange, Exchange { goes: None, comes: Some(0) });
}

#[test]
fn a_region_that_gets_less_memory_lets_pages_go() {
    for looks in [false, true] {
        let settings = PagingSettings { looks, ..settings(256) };
        let mut world = World::new(settings);
        for limit in [256, 40, 200, 8, 100] {
            world.policy.set_limit(limit);
            let mut looks = 0;
            while world.policy.frames_used().0 > limit {
                world.act();
                world.end_any();
                world.policy.set_limit(limit);
                looks += 1;
                assert!(looks < 1000, "{limit}: {:?}", world.policy.frames_used());
            }
            touch_all_ways(&mut world, 300);
            world.act();
            assert!(world.policy.frames_used().0 <= limit);
        }
    }
}

/// Reads one half upwards, and writes in many places of the other at once, as a radix sort does.
/// Returns the time.
fn distribute(places: u32, frames: u32, most_cluster: u32, looks: bool) -> u64 {
    let mut world = World::new(PagingSettings { looks, most_cluster, ..settings(frames) });
    let half = PAGES / 2;
    (0..half).for_each(|page| assert!(world.touch(page, true)));
    let each = half / places;
    for pass in 0..4 {
        let (from, to) = if pass % 2 == 0 { (0, half) } else { (half, 0) };
        let mut at = vec![0_u32; places as usize];
        for step in 0..half * 16 {
            assert!(world.touch(from + step / 16, false));
            let place = world.below(u64::from(places)) as u32;
            let done = &mut at[place as usize];
            let page = to + place * each + (*done / 16) % each;
            *done += 1;
            assert!(world.touch(page, true));
        }
    }
    world.now_ns
}

/// What is read in order grows the clusters. They would displace each other where many places are
/// written: without a look at what is missed, they cost 2.4 times as much as single pages.
#[test]
fn reading_in_order_does_not_make_clusters_where_many_places_are_written() {
    for looks in [false, true] {
        for places in [64, 256] {
            let [alone, clusters] = [1, 32].map(|most| distribute(places, 512, most, looks));
            assert!(clusters * 10 < alone * 15, "{places} {looks}: {clusters} of {alone} ns");
        }
        let [alone, clusters] = [1, 32].map(|most| distribute(16, 512, most, looks));
        assert!(clusters * 3 < alone, "{looks}: {clusters} of {alone} ns");
    }
}
