//! The live view without a terminal.

use super::super::rows::End;
use super::*;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;
use weir_measure::host_pipes::{Rate, RateQuality};

fn end(pid: i32, command: &str, waits: bool) -> End {
    End {
        pid,
        command: command.to_owned(),
        fd: Some(1),
        waits: Some(waits),
        only: waits,
        quota_cpus: None,
    }
}

fn pipe(inode: u64, names: [&str; 2], rate: f64, fill_bytes: u64, waits: [bool; 2]) -> Row {
    Row {
        kind: "pipe",
        inode,
        writers: vec![end(inode as i32 * 10, names[0], waits[0])],
        readers: vec![end(inode as i32 * 10 + 1, names[1], waits[1])],
        fill_bytes: Some(fill_bytes),
        capacity_bytes: Some(65_536),
        full: Some(fill_bytes == 65_536),
        rate: Some(Rate { bytes_per_s: rate, quality: RateQuality::Counted }),
        ..Row::default()
    }
}

fn app() -> App {
    let view = View { sort: TopSort::Rate, reverse: false, filter: String::new(), all: false };
    let mut app = App::new(view);
    let mut more = pipe(4, ["sh", "cat"], 5.0, 100, [false, false]);
    more.kind = "fifo";
    more.name = String::from("/tmp/\u{6f22}\u{5b57}");
    more.readers.push(end(77, "tee", false));
    more.rate = Some(Rate { bytes_per_s: 5e3, quality: RateQuality::AtMost });
    let rows = vec![
        pipe(1, ["tar", "zstd"], 2e6, 65_536, [true, false]),
        pipe(2, ["zstd", "ssh"], 9e6, 0, [false, true]),
        pipe(3, ["yes", "sleep"], 0.0, 65_536, [true, false]),
        more,
    ];
    app.update(Snapshot { rows, ..Snapshot::default() });
    app
}

fn text(app: &mut App, size: (usize, usize)) -> String {
    app.frame(size).into_iter().map(|(line, _)| line.trim_end().to_owned() + "\n").collect()
}

/// The processes that write, as the rows are on the screen.
fn order(app: &mut App) -> Vec<i32> {
    app.frame((100, 24));
    app.shown.iter().map(|row| row.writers[0].pid).collect()
}

/// A row was sorted by a process that it does not show.
#[test]
fn rows_are_sorted_by_the_process_that_is_shown() {
    let mut shared = pipe(1, ["bash", "wc"], 0.0, 0, [false, true]);
    shared.writers.push(end(11, "zstd", true));
    let other = pipe(2, ["tar", "wc"], 0.0, 0, [false, true]);
    let sort = TopSort::Writer;
    let view = View { sort, reverse: false, filter: String::new(), all: false };
    let inodes: Vec<u64> = view.of(&[shared, other]).iter().map(|row| row.inode).collect();
    assert_eq!(inodes, [2, 1], "tar stands before zstd");
}

#[test]
fn what_matters_most_stays_in_few_columns() {
    let all: Vec<String> =
        [120, 80, 40, 20].iter().map(|width| text(&mut app(), (*width, 9))).collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// "262 kB of 25..." was all that was shown.
#[test]
fn the_fill_and_the_capacity_of_a_larger_pipe_have_room() {
    let large =
        Row { capacity_bytes: Some(262_144), ..pipe(1, ["a", "b"], 0.0, 262_144, [true; 2]) };
    let mut app = app();
    app.update(Snapshot { rows: vec![large], ..Snapshot::default() });
    assert!(
        text(&mut app, (80, 9)).contains("262 kB of 256 KiB both"),
        "{}",
        text(&mut app, (80, 9))
    );
}

#[test]
fn keys_and_clicks_sort() {
    let mut app = app();
    assert_eq!(order(&mut app), [20, 10, 40, 30]);
    app.event(Event::Char('r'));
    assert_eq!(order(&mut app), [30, 40, 10, 20]);
    app.event(Event::Char('r'));
    app.event(Event::Char('<'));
    assert_eq!((app.view.sort, order(&mut app)), (TopSort::Reader, vec![40, 30, 20, 10]));
    let title = columns(100).into_iter().find(|it| it.sort == Some(TopSort::Waits));
    app.event(Event::Click(title.expect("a column").start, 1));
    assert_eq!((app.view.sort, order(&mut app)), (TopSort::Waits, vec![10, 30, 20, 40]));
    for _ in 0..20 {
        app.event(Event::Function(6));
        app.event(Event::Char('>'));
    }
}

#[test]
fn the_selection_stays_on_its_row() {
    let mut app = app();
    app.frame((100, 24));
    app.event(Event::Click(5, 3));
    let selected = |app: &App| app.shown[app.at()].inode;
    assert_eq!(selected(&app), 1);
    app.event(Event::Char('r'));
    assert_eq!(selected(&app), 1);
    app.event(Event::End);
    assert_eq!(selected(&app), 2);
    app.event(Event::Up);
    assert_eq!((selected(&app), app.event(Event::Char('w'))), (1, Action::Why(10)));
    app.update(Snapshot::default());
    assert_eq!(app.event(Event::Char('w')), Action::None);
    assert!(text(&mut app, (60, 24)).contains(super::super::NONE));
}

#[test]
fn a_filter_is_typed_kept_and_removed() {
    let mut app = app();
    app.event(Event::Char('/'));
    for c in "ZSTx".chars() {
        app.event(Event::Char(c));
    }
    app.event(Event::Char('\u{7f}'));
    assert!(text(&mut app, (60, 24)).ends_with("Filter: ZST_\n"));
    app.event(Event::Char('\r'));
    assert_eq!(order(&mut app), [20, 10]);
    assert!(text(&mut app, (60, 24)).contains("filter: ZST"));
    app.event(Event::Escape);
    assert_eq!(order(&mut app).len(), 4);
    app.event(Event::Char('/'));
    app.event(Event::Char('q'));
    assert_eq!(app.event(Event::Escape), Action::None);
    assert_eq!(app.view.filter, "");
    assert_eq!(app.event(Event::Char('q')), Action::Quit);
}

#[test]
fn the_keys_at_the_bottom_can_be_clicked() {
    let mut app = app();
    app.frame((100, 24));
    assert_eq!(app.event(Event::Click(2, 23)), Action::Quit);
    app.event(Event::Click(10, 23));
    assert!(text(&mut app, (100, 24)).contains("PgDn"));
    app.event(Event::Char('x'));
    assert!(text(&mut app, (100, 24)).contains("WRITER"));
    let at = app.footer().find("Pause").expect("a key");
    app.event(Event::Click(at, 23));
    assert!(!app.is_sampling());
}

#[test]
fn a_row_is_reported_in_words() {
    let mut app = app();
    app.view.sort = TopSort::Waits;
    app.arrange();
    assert!(text(&mut app, (100, 24)).contains("10 tar waits for room, for 11 zstd"));
    app.event(Event::Down);
    app.event(Event::Down);
    assert!(text(&mut app, (100, 24)).contains("21 ssh waits for data, for 20 zstd"));
}

proptest! {
    #[test]
    fn any_size_and_any_keys_are_fine(
        width in 1_usize..200, height in 1_usize..60,
        keys in prop::collection::vec((0_u8..14, 0_usize..300, 0_usize..80, any::<char>()), 0..40),
    ) {
        let mut app = app();
        for (kind, x, y, c) in keys {
            let event = match kind {
                0 => Event::Up, 1 => Event::Down, 2 => Event::PageUp, 3 => Event::PageDown,
                4 => Event::Home, 5 => Event::End, 6 => Event::Escape, 7 => Event::WheelDown,
                8 => Event::Function(x as u8), 9 | 10 => Event::Click(x, y),
                11 => Event::Char(b"/hswpaIr<>q\r"[x % 12] as char),
                _ => Event::Char(c),
            };
            app.event(event);
            let frame = app.frame((width, height));
            prop_assert!(frame.len() <= height);
            for (line, _) in frame {
                prop_assert!(line.width() <= width, "{line:?}");
            }
        }
    }
}

/// On a low screen the help could be moved out of sight, and came back after as many keys only.
#[test]
fn a_text_is_moved_no_further_than_to_its_end() {
    let mut app = app();
    app.show_message((1..=9).map(|n| format!("line {n}\n")).collect());
    for _ in 0..50 {
        app.event(Event::Down);
    }
    let shown = text(&mut app, (40, 6));
    assert!(shown.contains("line 6") && shown.contains("line 9"), "{shown}");
    app.event(Event::Up);
    let shown = text(&mut app, (40, 6));
    assert!(shown.contains("line 5") && !shown.contains("line 9"), "{shown}");
}
