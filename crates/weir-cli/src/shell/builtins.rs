//! The command words that mean something to a shell itself, so that a stage which starts with
//! one is left to the shell. One list for all shells: a word too many costs a shell, a word too
//! few changes what the stage does. A directory as a command (`..`) is a shell's to refuse too.
//!
//! Sources: `compgen -b` and `compgen -k` of bash 5.2, the dash(1), ksh93(1), mksh(1) and
//! zshbuiltins(1) manuals. The list omits builtins of ksh and mksh that only save a process
//! and do what the command does: `cat`, `sleep`, `getconf`, `realpath`.

/// Sorted by byte.
pub(super) const SHELL_WORDS: &str = "\
! (( . .. : [ [[ ]] alias autoload bg bind bindkey bool break builtin bye caller cap case cd chdir
clone command comparguments compcall compctl compdescribe compfiles compgen compgroups complete
compopt compound compquote comptags comptry compvalues continue coproc declare dirs disable
disown do done echo echotc echoti elif else emulate enable end enum esac eval exec exit export
false fc fg fi float for foreach function functions getcap getln getopts global hash help hist
history if in integer jobs kill let limit local log logout mapfile nameref namespace nocorrect
noglob popd print printf private pushd pushln pwd r read readarray readonly redirect rehash
rename repeat return sched select set setcap setopt shift shopt source suspend test then time
times trap true ttyctl type typeset ulimit umask unalias unfunction unhash unlimit unset
unsetopt until vared wait whence where which while zcompile zformat zftp zle zmodload
zparseopts zprof zpty zregexparse zselect zsocket zstyle ztcp { }";

/// Variables that change what the shell itself does, or that it does not let be assigned like
/// others: an assignment to one before a command is left to the shell. Sorted by byte.
pub(super) const SHELL_VARIABLES: &str = "\
ARGV0 BASHOPTS CDPATH CHILD_MAX DIRSTACK EGID ENV EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE
FIGNORE FPATH FUNCNAME FUNCNEST GID GLOBIGNORE GROUPS HISTCMD HISTCONTROL HISTFILE HISTFILESIZE
HISTIGNORE HISTSIZE HISTTIMEFORMAT IFS IGNOREEOF KSH_VERSION LINENO MAPFILE NULLCMD OLDPWD
OPTARG OPTERR OPTIND PATH PIPESTATUS POSIXLY_CORRECT PPID PROMPT_COMMAND PS4 PWD RANDOM
READLINE_LINE READNULLCMD REPLY SECONDS SHELLOPTS SHLVL SRANDOM STTY TEXTDOMAIN TEXTDOMAINDIR
TIMEFORMAT TMOUT UID USERNAME ZDOTDIR _ argv path status";

pub(super) fn is_shell_word(word: &str) -> bool {
    SHELL_WORDS.split_whitespace().any(|known| known == word)
}

/// Whether `name=value` before a command can be a plain entry of its environment.
pub(super) fn is_plain_variable(name: &str, value: &str) -> bool {
    // bash sets its own locale too, and complains of one that does not exist; these always do.
    let locale = name == "LANG" || name.starts_with("LC_");
    if locale && !matches!(value, "C" | "POSIX") {
        return false;
    }
    SHELL_VARIABLES.split_whitespace().all(|known| known != name)
        && !["BASH_", "COMP_", "ZSH_"].iter().any(|prefix| name.starts_with(prefix))
}
