//! Finding installed locales.

use std::ffi::CString;

/// Whether programs that use this host's C library can set the locale of this name by `setlocale(3)`.
#[cfg(target_env = "gnu")]
pub fn is_installed(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: `name` ends with a zero byte and lives until the call returns; no base is given.
    let locale = unsafe { libc::newlocale(libc::LC_ALL_MASK, name.as_ptr(), std::ptr::null_mut()) };
    if locale.is_null() {
        return false;
    }
    // SAFETY: the locale was just made, and nothing uses it.
    unsafe { libc::freelocale(locale) };
    true
}

/// Guesses whether a locale is installed, because this program's C library knows none: the host has
/// a directory of this name, or any archive of locales.
#[cfg(not(target_env = "gnu"))]
pub fn is_installed(name: &str) -> bool {
    let base = std::path::Path::new("/usr/lib/locale");
    let plain = CString::new(name).is_ok() && !name.contains('/');
    plain && (base.join(name).is_dir() || base.join("locale-archive").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_is_always_there_and_nonsense_never() {
        assert!(is_installed("C"));
        assert!(!is_installed("xx_XX.no-such") && !is_installed("C\0"));
    }
}
