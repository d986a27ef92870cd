//! What earlier runs showed: which pipes of which pipelines would gain by an elastic buffer.
//!
//! A small JSON file in the user's state directory, replaced as a whole. A pipeline is known by
//! the SHA-256 of its text, since the text may hold secrets. Of two runs that end at the same
//! moment the later one's file stands; what the other saw, its next run will see again.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Version of the file.
const SCHEMA: &str = "weir.elastic/1";
/// So much is remembered; the oldest is forgotten.
const MOST_ENTRIES: usize = 256;
/// No file of that many entries is larger.
const MOST_BYTES: u64 = 1 << 20;

/// What a run showed of one pipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Which pipeline: see [`pipeline_key`].
    pub pipeline: String,
    /// Which pipe of it, from 1.
    pub pipe: usize,
    /// Share of the time in which it was full.
    pub full_share: f64,
    /// Share of the time in which it was empty.
    pub empty_share: f64,
    /// Longest time full.
    pub longest_full_ms: u64,
    /// Longest time empty.
    pub longest_empty_ms: u64,
    /// When, in seconds since 1970.
    pub when_unix_s: u64,
}

#[derive(Serialize, Deserialize)]
struct Remembered {
    schema: String,
    seen: Vec<Seen>,
}

/// Why the file cannot be used.
#[derive(Debug)]
pub enum Trouble {
    /// It is not what weir writes: another may take its place.
    Damaged(String),
    /// A newer weir wrote it.
    Newer(String),
    /// The system refused.
    Io(std::io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Damaged(why) => write!(f, "it is damaged ({why})"),
            Trouble::Newer(schema) => write!(f, "a newer weir wrote it ({schema})"),
            Trouble::Io(error) => error.fmt(f),
        }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

/// Where it is kept: `WEIR_ELASTIC`, else `weir/elastic.json` under `XDG_STATE_HOME` or
/// `~/.local/state`. `None` where there is no home.
pub fn place() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = || set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    set("WEIR_ELASTIC").or_else(|| Some(state()?.join("weir/elastic.json")))
}

/// What a pipeline is known by.
pub fn pipeline_key(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what is remembered, the oldest first; nothing where there is no file.
pub fn read(path: &Path) -> Result<Vec<Seen>, Trouble> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        // A FIFO in its place would never be opened.
        Ok(found) if !found.is_file() => {
            return Err(Trouble::Io(std::io::Error::other("not a file")));
        }
        found => found.map(drop)?,
    }
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    let damaged = |error: serde_json::Error| Trouble::Damaged(error.to_string());
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
    match value["schema"].as_str() {
        Some(SCHEMA) => Ok(serde_json::from_value::<Remembered>(value).map_err(damaged)?.seen),
        Some(schema) if schema.starts_with("weir.elastic/") => {
            Err(Trouble::Newer(schema.chars().take(40).collect()))
        }
        _ => Err(Trouble::Damaged(String::from("it has no schema"))),
    }
}

/// Takes in what a run showed and forgets what it disproved: pipes of `pipeline`, from 1.
///
/// What stays the same is not written.
pub fn update(
    path: &Path,
    pipeline: &str,
    shown: &[Seen],
    disproved: &[usize],
) -> Result<(), Trouble> {
    let mut seen = match read(path) {
        Err(Trouble::Damaged(_)) if !shown.is_empty() => Vec::new(),
        // Nothing can be looked up there, so there is nothing to be forgotten either.
        Err(Trouble::Damaged(_)) => return Ok(()),
        read => read?,
    };
    let before = seen.len();
    seen.retain(|entry| {
        let again = shown.iter().any(|new| new.pipe == entry.pipe);
        entry.pipeline != pipeline || !(again || disproved.contains(&entry.pipe))
    });
    if shown.is_empty() && seen.len() == before {
        return Ok(());
    }
    seen.extend_from_slice(shown);
    seen.drain(..seen.len().saturating_sub(MOST_ENTRIES));
    write(path, seen)
}

fn write(path: &Path, seen: Vec<Seen>) -> Result<(), Trouble> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let remembered = Remembered { schema: String::from(SCHEMA), seen };
    let text = serde_json::to_vec_pretty(&remembered).map_err(std::io::Error::other)?;
    // Made with mode 600, and removed again if it cannot take its place.
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(&text)?;
    new.write_all(b"\n")?;
    new.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn seen(pipeline: &str, pipe: usize) -> Seen {
        Seen {
            pipeline: pipeline.to_owned(),
            pipe,
            full_share: 0.41,
            empty_share: 0.38,
            longest_full_ms: 400,
            longest_empty_ms: 390,
            when_unix_s: 1_795_248_900,
        }
    }

    #[test]
    fn what_was_shown_is_read_again_and_what_was_disproved_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("weir/elastic.json");
        assert_eq!(read(&path).expect("nothing yet"), vec![]);
        update(&path, "a", &[], &[1, 2]).expect("nothing to do");
        assert!(!path.exists(), "without evidence nothing is written");
        update(&path, "a", &[seen("a", 1), seen("a", 2)], &[]).expect("written");
        update(&path, "b", &[seen("b", 1)], &[2]).expect("written");
        let later = Seen { when_unix_s: 1_795_249_000, ..seen("a", 1) };
        update(&path, "a", std::slice::from_ref(&later), &[]).expect("written");
        assert_eq!(read(&path).expect("read"), vec![seen("a", 2), seen("b", 1), later]);
        update(&path, "a", &[], &[1, 2]).expect("written");
        assert_eq!(read(&path).expect("read"), vec![seen("b", 1)]);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("elastic.json");
        let many: Vec<Seen> = (1..=MOST_ENTRIES).map(|pipe| seen("a", pipe)).collect();
        update(&path, "a", &many, &[]).expect("written");
        update(&path, "b", &[seen("b", 1)], &[]).expect("written");
        let found = read(&path).expect("read");
        assert_eq!((found.len(), found[0].pipe), (MOST_ENTRIES, 2));
        assert_eq!(found.last(), Some(&seen("b", 1)));
        assert!(std::fs::metadata(&path).expect("there").len() < MOST_BYTES);
    }

    #[test]
    fn a_damaged_file_is_replaced_and_a_newer_one_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("elastic.json");
        for text in ["", "{", "[]", "{\"schema\":\"weir.elastic/1\",\"seen\":3}"] {
            std::fs::write(&path, text).expect("written");
            assert!(matches!(read(&path), Err(Trouble::Damaged(_))), "{text}");
            update(&path, "a", &[], &[1]).expect("nothing to do");
            update(&path, "a", &[seen("a", 1)], &[]).expect("replaced");
            assert_eq!(read(&path).expect("read"), vec![seen("a", 1)]);
        }
        std::fs::write(&path, "{\"schema\":\"weir.elastic/2\"}").expect("written");
        let refused = update(&path, "a", &[seen("a", 1)], &[]).expect_err("kept");
        assert!(refused.to_string().contains("newer weir"), "{refused}");
    }

    #[test]
    fn the_key_is_the_text_s_sha_256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(pipeline_key(""), empty);
    }
}
