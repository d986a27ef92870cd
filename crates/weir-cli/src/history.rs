//! `weir history`: the saved runs of `weir bench`.

use crate::args::{Export, HistoryOptions};
use crate::bench::history::{Entry, History, unknown};
use crate::bench::{export, trimmed};
use crate::fault::Fault;
use crate::output::{print, print_json};
use comfy_table::{CellAlignment, Table, presets};
use std::process::ExitCode;
use weir_measure::bench::record::Report;

/// Carries out the verb.
pub fn history(options: &HistoryOptions) -> Result<ExitCode, Fault> {
    let named = options.show.as_ref().or(options.remove.as_ref()).or(options.export.as_ref());
    let Some(mut history) = History::open_existing()? else {
        return match named {
            Some(name) => Err(unknown(name, None)),
            None => empty(options.json),
        };
    };
    if let Some(name) = &options.show {
        print_json(&format!("{}\n", history.load(name)?))?;
    } else if let Some(name) = &options.remove {
        history.remove(name)?;
    } else if let Some(name) = &options.export {
        let report = read(&history.load(name)?, name)?;
        print(&match options.format {
            Export::Weir => format!("{}\n", history.load(name)?),
            Export::Hyperfine => export::hyperfine(&report),
            Export::Bencher => export::bencher(&report),
            Export::Go => export::go(&report),
        })?;
    } else {
        let entries = history.list()?;
        if entries.is_empty() {
            return empty(options.json);
        }
        match options.json {
            true => print_json(&json(&entries)?)?,
            false => print(&table(&entries))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A report, or what is wrong with the text under this name.
pub fn read(text: &str, name: &str) -> Result<Report, Fault> {
    Report::from_json(text).map_err(|error| Fault::failed(format!("cannot read '{name}': {error}")))
}

fn empty(as_json: bool) -> Result<ExitCode, Fault> {
    if as_json {
        print_json("[]\n")?;
    } else {
        crate::fault::tell("no run is saved yet; weir bench --save NAME saves one");
    }
    Ok(ExitCode::SUCCESS)
}

fn json(entries: &[Entry]) -> Result<String, Fault> {
    let text = serde_json::to_string_pretty(entries);
    Ok(text.map_err(|error| Fault::failed(format!("cannot make JSON: {error}")))? + "\n")
}

fn table(entries: &[Entry]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["name", "when (UTC)", "cases", "resolves", "kernel", "CPU"]);
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for entry in entries {
        table.add_row([
            entry.name.clone(),
            utc(entry.started_unix_s),
            entry.cases.to_string(),
            format!("{:.1} %", entry.resolves_percent),
            entry.kernel.split(' ').nth(1).unwrap_or("").to_owned(),
            entry.cpu.clone(),
        ]);
    }
    trimmed(&table) + "\n"
}

/// "2026-11-21 08:15", by the civil calendar (H. Hinnant's days_from_civil, turned round).
pub fn utc(unix_s: u64) -> String {
    let days = unix_s / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (unix_s / 3_600 % 24, unix_s / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00");
        assert_eq!(utc(1_795_248_900), "2026-11-21 08:15");
    }
}
