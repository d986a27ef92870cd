//! Seccomp filters that allow everything, to measure the cost of filtering itself.

use std::io;

/// Installs a filter that checks the call's number `instructions - 1` times and then allows the
/// call. It cannot be removed: use it in a forked child.
///
/// If a filter does not load an argument, the kernel can find out beforehand that each call of its
/// table is allowed, and need not run it (its bitmap of Linux 5.11). With `loads_argument` it must run
/// the filter, and for a number that no call has it must too.
///
/// # Errors
/// `EINVAL` where the kernel has no filters or the program is too long (4096 instructions).
pub fn allow_everything(instructions: usize, loads_argument: bool) -> io::Result<()> {
    const FIRST_ARGUMENT: u32 = 16;
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let from = if loads_argument { FIRST_ARGUMENT } else { 0 };
    let load = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, from);
    // A condition without effect, so that the loaded value is used.
    let test = libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0xdead_beef,
    };
    let mut program = vec![load; instructions.saturating_sub(2)];
    program.push(test);
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let header = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: prctl(PR_SET_NO_NEW_PRIVS) takes numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `header` describes `program`, which outlives the call; the kernel copies and checks
    // it.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &header) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
