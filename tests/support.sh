# What tests/run, tests/long and tests/suite share. Sourced, not run.
# shellcheck shell=bash

say() { printf '=== %s\n' "$*"; }

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command for so many seconds at most, and ends all of it after that.
bounded() {
    local seconds=$1
    shift
    if has timeout; then timeout --kill-after=30 "$seconds" "$@"; else "$@"; fi
}

# What the caller set for builds and runs of his own would change ours. Only
# what says how to reach registries, and how to print, is kept.
clean_environment() {
    local name
    while read -r name; do
        case $name in
            CARGO_HOME | CARGO_NET_* | CARGO_HTTP_* | CARGO_REGISTR* | CARGO_SOURCE_*) ;;
            CARGO_TERM_* | CARGO_BUILD_JOBS | CARGO_CACHE_*) ;;
            *) unset "$name" ;;
        esac
    done < <(compgen -e | grep -E '^(_*CARGO|RUSTC|RUST(DOC)?FLAGS$|RUSTDOC$|RUST_(LOG|BACKTRACE|TEST_)|WINDLASS_|MAKEFLAGS$|MFLAGS$)')
    export CARGO_INCREMENTAL=0 CARGO_NET_RETRY=${CARGO_NET_RETRY:-5}
    export CARGO_TERM_PROGRESS_WHEN=never RUST_BACKTRACE=1
    # Before any other: a cargo of the system with a clippy of rustup does not work,
    # and the guests' build may have brought a cargo of the system.
    local bin=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
    if [ -x "$bin/cargo" ]; then export PATH="$bin:$PATH"; fi
}
