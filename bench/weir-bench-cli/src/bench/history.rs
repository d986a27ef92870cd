//! Saved runs: an SQLite database in the user's state directory.
//!
//! One table has a row for each run: the report as JSON text, and the columns of the list. Saving is
//! one transaction with full synchronisation: after a kill at any moment, the database holds the run
//! completely or not at all.

use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_bench::engine::record::Report;
use weir_command::fault::Fault;

/// Version of the table.
const VERSION: i64 = 1;
/// How long to wait while another weir saves.
const PATIENCE: Duration = Duration::from_secs(10);

/// The saved runs.
pub struct History {
    connection: Connection,
    path: PathBuf,
}

/// A saved run, as it is listed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SavedRun {
    /// The name it was saved under.
    pub name: String,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// The host's kernel.
    pub kernel: String,
    /// The host's CPU.
    pub cpu: String,
    /// How many figures it has.
    pub cases: u64,
    /// The smallest difference that the host resolved.
    pub resolves_share: Option<f64>,
}

/// The path of the history: `WEIR_HISTORY`, or below `XDG_STATE_HOME` or `~/.local/state`.
pub fn place() -> Result<PathBuf, Fault> {
    weir_sys::places::kept("WEIR_HISTORY", "history.db").ok_or_else(|| {
        Fault::failed(
            "cannot locate the history: WEIR_HISTORY is not set, nor XDG_STATE_HOME or HOME to a \
             whole path",
        )
    })
}

/// Refuses names that would be taken for a path or an option.
pub fn check_name(name: &str) -> Result<(), Fault> {
    let bad = name.is_empty()
        || name.starts_with('-')
        || name.ends_with(".json")
        || name.contains('/')
        || name.chars().any(weir_policy::text::is_unsafe_to_print);
    if bad {
        return Err(Fault::usage(format!(
            "cannot save as '{}': a name must not be empty, contain '/' or control characters, begin \
             with '-' or end with '.json'",
            name.escape_debug()
        )));
    }
    Ok(())
}

impl History {
    /// Opens the history for writing, and creates it if there is none.
    pub fn open() -> Result<History, Fault> {
        let path = place()?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .map_err(|error| cannot("create", directory, &error))?;
        }
        let connection = Connection::open(&path).map_err(|error| cannot("open", &path, &error))?;
        History { connection, path }.prepare()
    }

    /// Opens the history for reading; `None` if there is none yet.
    pub fn open_existing() -> Result<Option<History>, Fault> {
        let path = place()?;
        match path.try_exists() {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(cannot("open", &path, &error)),
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)
            .map_err(|error| cannot("open", &path, &error))?;
        History { connection, path }.prepare().map(Some)
    }

    fn prepare(self) -> Result<History, Fault> {
        let cannot = |error: rusqlite::Error| cannot("use", &self.path, &error);
        self.connection.busy_timeout(PATIENCE).map_err(cannot)?;
        let version: i64 = self
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(cannot)?;
        if version > VERSION {
            return Err(Fault::failed(format!(
                "cannot use the history '{}': it was written by a newer weir (version \
                 {version}, this weir knows {VERSION})",
                self.path.display()
            )));
        }
        if version < VERSION {
            let make = "BEGIN IMMEDIATE;
                CREATE TABLE IF NOT EXISTS runs (
                    name TEXT PRIMARY KEY,
                    started_unix_s INTEGER NOT NULL,
                    kernel TEXT NOT NULL,
                    cpu TEXT NOT NULL,
                    cases INTEGER NOT NULL,
                    resolves_percent REAL NOT NULL,
                    report TEXT NOT NULL
                );
                PRAGMA user_version = 1;
                COMMIT;";
            self.connection.execute_batch(make).map_err(cannot)?;
        }
        self.connection.pragma_update(None, "synchronous", "FULL").map_err(cannot)?;
        Ok(self)
    }

    /// Refuses a name that is taken, unless it may be replaced.
    pub fn check_free(&self, name: &str, replace: bool) -> Result<(), Fault> {
        let same = self.connection.prepare("SELECT 1 FROM runs WHERE name = ?1");
        let there = same.and_then(|mut same| same.exists([name]));
        match there.map_err(|error| cannot("read", &self.path, &error))? {
            true if !replace => Err(Fault::failed(format!(
                "cannot save as '{name}': a run of that name exists (--replace overwrites it)"
            ))),
            _ => Ok(()),
        }
    }

    /// Saves a run. Refuses a name that is taken, unless it may be replaced.
    pub fn save(&self, name: &str, report: &Report, replace: bool) -> Result<(), Fault> {
        check_name(name)?;
        let text = serde_json::to_string(report).map_err(Fault::cannot("make JSON"))?;
        let cannot = |error: rusqlite::Error| cannot("write", &self.path, &error);
        // Unchecked, so that `check_free` can run within it. No other one is open. It begins
        // as one that writes: one that has read first does not wait for another, and fails.
        let how = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, how).map_err(cannot)?;
        self.check_free(name, replace)?;
        let insert = "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let host = &report.host;
        let columns = params![
            name,
            report.started_unix_s.cast_signed(),
            host.kernel,
            host.cpu,
            report.cases.len() as i64,
            report.self_test.resolves_share.unwrap_or(0.0) * 100.0,
            text
        ];
        transaction.execute(insert, columns).map_err(cannot)?;
        transaction.commit().map_err(cannot)
    }

    /// The JSON text of a saved run.
    pub fn load(&self, name: &str) -> Result<String, Fault> {
        let found: Option<String> = self
            .connection
            .query_row("SELECT report FROM runs WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(|error| cannot("read", &self.path, &error))?;
        found.map_or_else(|| Err(self.unknown(name)), Ok)
    }

    /// All saved runs, the newest first.
    pub fn list(&self) -> Result<Vec<SavedRun>, Fault> {
        let cannot = |error: rusqlite::Error| cannot("read", &self.path, &error);
        let select = "SELECT name, started_unix_s, kernel, cpu, cases, resolves_percent
            FROM runs ORDER BY started_unix_s DESC, name";
        let mut statement = self.connection.prepare(select).map_err(cannot)?;
        let rows = statement.query_map([], |row| {
            Ok(SavedRun {
                name: row.get(0)?,
                started_unix_s: row.get::<_, i64>(1)?.max(0).cast_unsigned(),
                kernel: row.get(2)?,
                cpu: row.get(3)?,
                cases: row.get::<_, i64>(4)?.max(0).cast_unsigned(),
                // 0 stands for a run without a self-test; no host resolves 0.
                resolves_share: Some(row.get::<_, f64>(5)? / 100.0).filter(|share| *share > 0.0),
            })
        });
        rows.map_err(cannot)?.collect::<Result<_, _>>().map_err(cannot)
    }

    /// Removes a saved run.
    pub fn remove(&mut self, name: &str) -> Result<(), Fault> {
        let removed = self
            .connection
            .execute("DELETE FROM runs WHERE name = ?1", [name])
            .map_err(|error| cannot("write", &self.path, &error))?;
        if removed == 0 { Err(self.unknown(name)) } else { Ok(()) }
    }

    fn unknown(&self, name: &str) -> Fault {
        let entries = self.list().unwrap_or_default();
        let near = entries.iter().map(|entry| (strsim::jaro_winkler(name, &entry.name), entry));
        let nearest = near.filter(|(score, _)| *score > 0.6).max_by(|a, b| a.0.total_cmp(&b.0));
        unknown(name, nearest.map(|(_, entry)| entry.name.as_str()))
    }
}

/// The error that there is no run of this name; it may suggest another name.
pub fn unknown(name: &str, nearest: Option<&str>) -> Fault {
    Fault::failed(match nearest {
        Some(nearest) => format!("there is no saved run '{name}'; did you mean '{nearest}'?"),
        None => format!("there is no saved run '{name}'; weir history lists them"),
    })
}

fn cannot(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Fault {
    Fault::failed(format!("cannot {what} the history '{}': {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::tests::report;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Two runs ended at the same time: the second was lost, since it did not wait for the first.
    #[test]
    fn a_run_is_saved_once_another_has_been() {
        static WAITS: AtomicBool = AtomicBool::new(false);
        let waits = |_| {
            // Relaxed: nothing else passes between the two threads.
            WAITS.store(true, Ordering::Relaxed);
            std::thread::yield_now();
            true
        };
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("history.db");
        let open = || {
            let connection = Connection::open(&path).expect("opened");
            History { connection, path: path.clone() }.prepare().expect("made")
        };
        let (first, mut second) = (open(), open());
        second.connection.busy_handler(Some(waits)).expect("set");
        let insert = "BEGIN IMMEDIATE; INSERT INTO runs VALUES ('a', 0, '', '', 0, 0, '');";
        first.connection.execute_batch(insert).expect("begun");
        std::thread::scope(|scope| {
            let saving = scope.spawn(move || second.save("b", &report(), false));
            while !WAITS.load(Ordering::Relaxed) && !saving.is_finished() {
                std::thread::yield_now();
            }
            first.connection.execute_batch("COMMIT").expect("ended");
            saving.join().expect("no panic").expect("saved");
        });
        assert_eq!(first.list().expect("listed").len(), 2);
    }
}
