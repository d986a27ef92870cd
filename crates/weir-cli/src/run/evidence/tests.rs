//! What is remembered from run to run, and what is forgotten.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn seen(pipeline: &str, pipe: usize) -> PipeEvidence {
    PipeEvidence {
        pipeline: pipeline.to_owned(),
        pipe,
        full_share: 0.41,
        empty_share: 0.38,
        longest_full_ms: 400,
        longest_empty_ms: 390,
        when_unix_s: 1_795_248_900,
        runs: vec![true],
    }
}

fn refuted(pipeline: &str, pipe: usize) -> Refuted {
    Refuted {
        pipeline: pipeline.to_owned(),
        kind: String::from("elastic-buffer"),
        stage: None,
        pipe: Some(pipe),
        when_unix_s: now_unix_s(),
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weir/elastic.json");
    (directory, path)
}

fn read_seen(path: &Path) -> Vec<PipeEvidence> {
    read(path).expect("read").seen
}

#[test]
fn what_was_shown_is_read_again() {
    let (_directory, path) = place();
    assert_eq!(read_seen(&path), vec![]);
    update(&path, "a", &[], &[1, 2]).expect("nothing to do");
    assert!(!path.exists(), "without evidence nothing is written");
    update(&path, "a", &[seen("a", 1), seen("a", 2)], &[]).expect("written");
    update(&path, "b", &[seen("b", 1)], &[2]).expect("written");
    let later = PipeEvidence { when_unix_s: 1_795_249_000, ..seen("a", 1) };
    update(&path, "a", std::slice::from_ref(&later), &[]).expect("written");
    let twice = PipeEvidence { runs: vec![true, true], ..later };
    assert_eq!(read_seen(&path), vec![seen("a", 2), seen("b", 1), twice]);
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn one_contrary_run_decides_nothing_and_several_do() {
    let (_directory, path) = place();
    update(&path, "a", &[seen("a", 1)], &[]).expect("written");
    let stands = || read_seen(&path).first().map(PipeEvidence::stands);
    let contrary = || {
        update(&path, "a", &[], &[1]).expect("written");
    };
    contrary();
    assert_eq!(stands(), Some(true), "one of two");
    contrary();
    assert_eq!(stands(), Some(true), "one of three");
    contrary();
    assert_eq!(stands(), Some(false), "one of four");
    update(&path, "a", &[seen("a", 1)], &[]).expect("written");
    assert_eq!((stands(), read_seen(&path)[0].counts()), (Some(true), (2, 5)));
    (0..RUNS).for_each(|_| contrary());
    assert_eq!(stands(), None, "none of the last eight");
}

#[test]
fn what_was_refuted_is_kept_until_it_gains_or_is_old() {
    let (_directory, path) = place();
    update(&path, "a", &[seen("a", 1), seen("a", 2)], &[]).expect("written");
    judge_tried(&path, &[refuted("a", 1)], false).expect("written");
    let memory = read(&path).expect("read");
    assert_eq!((memory.seen, memory.refuted.len()), (vec![seen("a", 2)], 1));
    judge_tried(&path, &[refuted("a", 1)], false).expect("written");
    assert_eq!(read(&path).expect("read").refuted.len(), 1, "once is enough");
    judge_tried(&path, &[refuted("a", 1)], true).expect("written");
    assert_eq!(read(&path).expect("read").refuted, vec![]);
    let old = Refuted { when_unix_s: 1, ..refuted("a", 1) };
    judge_tried(&path, &[old], false).expect("written");
    assert_eq!(read(&path).expect("read").refuted, vec![]);
}

#[test]
fn the_oldest_is_forgotten() {
    let (_directory, path) = place();
    let many: Vec<PipeEvidence> = (1..=MOST_ENTRIES).map(|pipe| seen("a", pipe)).collect();
    update(&path, "a", &many, &[]).expect("written");
    update(&path, "b", &[seen("b", 1)], &[]).expect("written");
    let many: Vec<Refuted> = (0..=MOST_ENTRIES).map(|pipe| refuted("a", pipe)).collect();
    judge_tried(&path, &many, false).expect("written");
    let found = read(&path).expect("read");
    assert_eq!(found.seen.last(), Some(&seen("b", 1)));
    assert_eq!((found.refuted.len(), found.refuted[0].pipe), (MOST_ENTRIES, Some(1)));
    assert!(std::fs::metadata(&path).expect("there").len() < MOST_BYTES);
}

#[test]
fn a_damaged_file_is_replaced_and_one_of_another_version_is_kept() {
    let (directory, _) = place();
    let path = directory.path().join("elastic.json");
    for text in ["", "{", "[]", "{\"schema\":\"weir.elastic/1\",\"seen\":3}"] {
        std::fs::write(&path, text).expect("written");
        assert!(matches!(read(&path), Err(Trouble::Damaged(_))), "{text}");
        update(&path, "a", &[], &[1]).expect("nothing to do");
        assert!(usable(&path).is_some());
        update(&path, "a", &[seen("a", 1)], &[]).expect("replaced");
        assert_eq!(read_seen(&path), vec![seen("a", 1)]);
    }
    std::fs::write(&path, "{\"schema\":\"weir.elastic/2\"}").expect("written");
    assert!(usable(&path).is_none());
    let refused = update(&path, "a", &[seen("a", 1)], &[]).expect_err("kept");
    assert!(refused.to_string().contains("its version is weir.elastic/2"), "{refused}");
}

#[test]
fn the_key_is_the_text_s_sha_256() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(pipeline_key(""), empty);
}
