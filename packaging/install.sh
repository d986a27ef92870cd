#!/bin/sh
# Installs weir from its release archive, without root: curl -fsSL .../install.sh | sh
#
#   WEIR_PREFIX   where to: binaries into $WEIR_PREFIX/bin (default: ~/.local)
#   WEIR_VERSION  which release (default: the latest)
#   WEIR_FROM     a directory or a URL that has the archive and SHA256SUMS, in place of the release's
#
# It needs tar, gzip, sha256sum, and curl or wget. It downloads into a temporary directory, compares the archive with
# the checksums of the release, and changes nothing if they differ.
set -eu

releases=https://github.com/weir-project/weir/releases

fail() { printf 'install weir: %s\n' "$*" >&2; exit 1; }

has() { command -v "$1" >/dev/null 2>&1; }

get() { # file, where to
    case $from in
        *://*)
            if has curl; then curl -fsSL "$from/$1" -o "$2"
            elif has wget; then wget -qO "$2" "$from/$1"
            else fail "neither curl nor wget is installed"
            fi ;;
        *) cp "$from/$1" "$2" ;;
    esac || fail "cannot get $1 from $from"
}

main() {
    for tool in tar gzip sha256sum; do
        has $tool || fail "$tool is not installed"
    done
    [ "$(uname -s)" = Linux ] || fail "weir runs on Linux; this is $(uname -s)"
    case $(uname -m) in
        x86_64 | amd64) arch=x86_64 ;;
        aarch64 | arm64) arch=aarch64 ;;
        *) fail "there is no archive for $(uname -m); build it: cargo install --locked --git ${releases%/releases} weir-cli" ;;
    esac
    prefix=${WEIR_PREFIX:-${HOME:?HOME is not set; WEIR_PREFIX says where to install}/.local}
    if [ -n "${WEIR_FROM:-}" ]; then from=$WEIR_FROM
    elif [ -n "${WEIR_VERSION:-}" ]; then from=$releases/download/v$WEIR_VERSION
    else from=$releases/latest/download
    fi

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    get SHA256SUMS "$work/SHA256SUMS"
    line=$(grep "  weir-pipes-[^ ]*-$arch-linux\.tar\.gz\$" "$work/SHA256SUMS") ||
        fail "the release at $from has no archive for $arch"
    archive=${line##*  }
    [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "$from has several archives for $arch"
    get "$archive" "$work/$archive"
    (cd "$work" && printf '%s\n' "$line" | sha256sum -c - >/dev/null 2>&1) ||
        fail "the checksum of $archive is not the one in SHA256SUMS; nothing was installed"
    gzip -dc "$work/$archive" | tar -xf - -C "$work"
    tree=$work/${archive%.tar.gz}
    "$tree/weir" --version >/dev/null || fail "the binary does not run here; nothing was installed"

    mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
        "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d" "$prefix/share/doc/weir" ||
        fail "cannot write to $prefix; WEIR_PREFIX says where to install"
    for binary in weir weir-bench weir-net weir-model; do
        [ -f "$tree/$binary" ] || continue
        # Renamed into place: a weir that runs keeps its file.
        cp "$tree/$binary" "$prefix/bin/.$binary.new"
        mv -f "$prefix/bin/.$binary.new" "$prefix/bin/$binary"
    done
    cp "$tree"/man/* "$prefix/share/man/man1"
    cp "$tree/completions/weir.bash" "$prefix/share/bash-completion/completions/weir"
    cp "$tree/completions/weir.zsh" "$prefix/share/zsh/site-functions/_weir"
    cp "$tree/completions/weir.fish" "$prefix/share/fish/vendor_completions.d/weir.fish"
    cp -r "$tree/licences" "$tree/LICENSE-MIT" "$tree/LICENSE-APACHE" "$prefix/share/doc/weir"

    printf '%s is in %s/bin\n' "$("$prefix/bin/weir" --version)" "$prefix"
    # shellcheck disable=SC2016 # The reader's shell expands it.
    case :${PATH:-}: in
        *":$prefix/bin:"*) ;;
        *) printf 'add it to your PATH: export PATH="%s/bin:$PATH"\n' "$prefix" ;;
    esac
}

# All of it is read before any of it runs: a download that breaks off does nothing.
main "$@"
