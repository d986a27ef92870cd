//! The locale by which a program compares and classifies text.

use crate::sys::locale::is_installed;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The categories that `setlocale(LC_ALL, "")` sets. It sets all of them or none.
const CATEGORIES: [&str; 12] = [
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_ADDRESS",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_NAME",
    "LC_PAPER",
    "LC_TELEPHONE",
];

/// Returns the locale in force for comparing or classifying text, unless it compares bytes or code
/// points. A program keeps to C if any locale named in its environment is not installed.
pub fn locale_of(environment: &[String]) -> Option<String> {
    locale_among(environment, &is_installed_cached)
}

fn locale_among(environment: &[String], is_installed: &dyn Fn(&str) -> bool) -> Option<String> {
    let value = |name: &str| {
        let mut values = environment.iter().filter_map(|v| v.strip_prefix(name)?.strip_prefix('='));
        values.next().filter(|value| !value.is_empty())
    };
    let of = |category: &str| value("LC_ALL").or_else(|| value(category)).or_else(|| value("LANG"));
    let by_bytes = |locale: &&str| *locale == "C" || *locale == "POSIX" || locale.starts_with("C.");
    let rules = ["LC_COLLATE", "LC_CTYPE"].into_iter().filter_map(of);
    let locale = rules.into_iter().find(|locale| !by_bytes(locale))?;
    let installed = CATEGORIES.into_iter().filter_map(of).all(is_installed);
    installed.then(|| locale.to_owned())
}

/// Whether a locale is installed; each is looked up once.
fn is_installed_cached(name: &str) -> bool {
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(name.to_owned()).or_insert_with(|| is_installed(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locale(of: &[&str]) -> Option<String> {
        let environment: Vec<String> = of.iter().map(|s| (*s).to_owned()).collect();
        locale_among(&environment, &|name| name != "xx_XX.UTF-8")
    }

    #[test]
    fn the_locale_follows_setlocale_s_order() {
        assert_eq!(locale(&["LANG=en_US.UTF-8"]), Some("en_US.UTF-8".to_owned()));
        assert_eq!(locale(&["LANG=en_US.UTF-8", "LC_ALL=C"]), None);
        assert_eq!(locale(&["LC_ALL=", "LANG=C.UTF-8"]), None);
        assert_eq!(locale(&["LC_COLLATE=de_DE", "LANG=C"]), Some("de_DE".to_owned()));
        assert_eq!(locale(&["LC_CTYPE=de_DE", "LANG=C"]), Some("de_DE".to_owned()));
        assert_eq!(locale(&[]), None);
    }

    /// In containers LC_ALL often names a locale that only the host has; programs then use C.
    #[test]
    fn a_locale_that_is_not_installed_is_not_in_force() {
        assert_eq!(locale(&["LC_ALL=xx_XX.UTF-8"]), None);
        assert_eq!(locale(&["LANG=en_US.UTF-8", "LC_TIME=xx_XX.UTF-8"]), None);
        // A locale that LC_ALL overrides is not looked up.
        let overruled = locale(&["LC_ALL=de_DE", "LC_TIME=xx_XX.UTF-8"]);
        assert_eq!(overruled, Some("de_DE".to_owned()));
        assert_eq!(locale_of(&[String::from("LC_ALL=xx_XX.UTF-8")]), None);
    }
}
