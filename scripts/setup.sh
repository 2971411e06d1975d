#!/bin/sh
# Creates .venv with the locked packages, and installs Java 17 or newer if it is missing. Needs only Python 3.11+.
# `setup.sh docs` adds the packages that build the documentation. `setup.sh browser` installs Chromium for the tests of the page, if it
# is missing. `setup.sh uv` prints the pinned uv, and installs it first.
# Packages come from the index that pip or uv is configured with; this script names no host.
set -eu
cd "$(dirname "$0")/.."

log() { printf 'setup: %s\n' "$*" >&2; }
fail() { log "$*"; exit 1; }

# --- system packages: only as root, or with sudo without a password

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

# try_install PACKAGE...: install the first package that the package manager has
try_install() {
    for package in "$@"; do
        log "installing $package"
        if command -v apt-get >/dev/null; then
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" >&2 && return
        elif command -v dnf >/dev/null; then
            as_root dnf install -y -q "$package" >&2 && return
        elif command -v apk >/dev/null; then
            as_root apk add -q "$package" >&2 && return
        fi
    done
    return 1
}

refresh_packages() {
    if command -v apt-get >/dev/null; then as_root apt-get update -q >&2 || log "apt-get update failed; continuing with the current package lists"; fi
}

# --- Python

good_python() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if good_python "$candidate"; then echo "$candidate"; return; fi
    done
    fail "no Python 3.11 or newer was found; install one, or name it: PYTHON=/path/to/python make setup"
}

make_venv() {
    python=$(find_python)
    log "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv >&2 && return
    # It only makes the directory, so any version will do.
    if command -v uv >/dev/null; then uv venv --quiet --seed --clear --python "$python" .venv; return; fi
    # Debian and Ubuntu have the venv module in a separate package.
    may_install && refresh_packages && try_install python3-venv && "$python" -m venv --clear .venv >&2 && return
    rm -rf .venv
    fail "'$python -m venv .venv' failed; install the package python3-venv (Debian, Ubuntu), or uv"
}

# --- packages

# pip_setting NAME: a setting of pip; the environment overrides the files
pip_setting() {
    .venv/bin/python -m pip config list 2>/dev/null | awk -F= -v name="$1" '
        { key = $1; value = substr($0, length(key) + 2); gsub(/^\047|\047$/, "", value) }
        key == ":env:." name { env = value }
        key == "install." name { install = value }
        key == "global." name { global = value }
        END { print env != "" ? env : install != "" ? install : global }'
}

# pip separates values by spaces and, in files, by line ends
words() { printf '%s' "$1" | sed 's/\\n/ /g' | tr '\n' ' ' | tr -s ' ' | sed 's/^ //; s/ $//'; }

# uv does not read pip's configuration: pass it on unless uv has its own.
adopt_pip_configuration() {
    if env | grep -qE '^UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|CONFIG_FILE|NO_INDEX)='; then return; fi
    if [ -e "${XDG_CONFIG_HOME:-$HOME/.config}/uv/uv.toml" ] || [ -e /etc/uv/uv.toml ]; then return; fi
    index=$(words "$(pip_setting index-url)")
    extra=$(words "$(pip_setting extra-index-url)")
    links=$(words "$(pip_setting find-links)")
    hosts=$(words "$(pip_setting trusted-host)")
    certificate=$(pip_setting cert)
    if [ -n "$index" ]; then export UV_INDEX_URL="$index"; fi
    # pip treats all indexes alike; hashes fix what is installed.
    if [ -n "$extra" ]; then export UV_EXTRA_INDEX_URL="$extra" UV_INDEX_STRATEGY=unsafe-best-match; fi
    if [ -n "$links" ]; then UV_FIND_LINKS=$(echo "$links" | tr ' ' ','); export UV_FIND_LINKS; fi
    if [ -n "$hosts" ]; then export UV_INSECURE_HOST="$hosts"; fi
    if [ -n "$certificate" ] && [ -z "${SSL_CERT_FILE:-}" ]; then export SSL_CERT_FILE="$certificate"; fi
}

# uv installs and locks everything else, so it is pinned by hash itself. Another one on the PATH is used if it is the same version.
uv_version() { sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements/installer.lock; }

is_pinned_uv() { [ "$("$1" --version 2>/dev/null | cut -d ' ' -f 2)" = "$(uv_version)" ]; }

find_uv() {
    for candidate in .venv/bin/uv uv; do
        if is_pinned_uv "$candidate"; then command -v "$candidate"; return; fi
    done
    log "installing uv $(uv_version)"
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/installer.lock >&2
    echo .venv/bin/uv
}

install_packages() {
    uv=$(find_uv)
    adopt_pip_configuration
    log "installing the locked packages (the first time takes a minute or two)"
    # Compile once: some environments keep Python from writing bytecode, so every process would compile again.
    "$uv" pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes -r requirements/dev.lock
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
    .venv/bin/python -m compileall -q src
}

install_docs_packages() {
    uv=$(find_uv)
    adopt_pip_configuration
    log "installing the locked packages of the documentation"
    "$uv" pip install --quiet --python .venv/bin/python --require-hashes -r requirements/docs.lock
}

# --- Java

java_major() {
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

good_java() {
    for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
        major=$(java_major "$java" 2>/dev/null) || major=
        if [ -n "$major" ]; then [ "$major" -ge 17 ]; return; fi
    done
    return 1
}

install_java() {
    if command -v brew >/dev/null; then
        log "installing openjdk@17"
        brew install --quiet openjdk@17 >&2 || return 1
        # Homebrew does not put it on the PATH.
        JAVA_HOME=$(brew --prefix openjdk@17)
        export JAVA_HOME
        log "add this to your shell's profile: export JAVA_HOME=$JAVA_HOME"
        return
    fi
    may_install || return 1
    refresh_packages
    if command -v apt-get >/dev/null; then try_install openjdk-21-jre-headless openjdk-17-jre-headless
    elif command -v dnf >/dev/null; then try_install java-21-openjdk-headless java-17-openjdk-headless
    else try_install openjdk21-jre-headless openjdk17-jre-headless
    fi
}

ensure_java() {
    if good_java; then return; fi
    if install_java && good_java; then return; fi
    log "Spark needs Java 17 or newer (found: ${major:-none}), and it could not be installed automatically. Install it with one of"
    log "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless"
    log "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless"
    log "  Alpine:          sudo apk add openjdk17-jre-headless"
    log "  macOS:           brew install openjdk@17, then export JAVA_HOME=\$(brew --prefix openjdk@17)"
    fail "or set JAVA_HOME to one that you have; then run this again"
}

# --- Chromium

good_chromium() { .venv/bin/python scripts/chromium.py >/dev/null 2>&1; }

install_chromium() {
    if command -v brew >/dev/null; then
        log "installing chromium"
        brew install --quiet --cask chromium >&2
    else
        may_install && refresh_packages && try_install chromium
    fi
}

ensure_chromium() {
    if good_chromium; then return; fi
    if install_chromium && good_chromium; then return; fi
    log "trying the Chromium of Playwright"
    if .venv/bin/python -m playwright install --only-shell chromium >&2 && good_chromium; then return; fi
    log "the tests of the page need Chromium, and it could not be installed automatically. Install it with one of"
    log "  Debian:          sudo apt-get install chromium"
    log "  Fedora, RHEL:    sudo dnf install chromium"
    log "  Alpine:          sudo apk add chromium"
    log "  macOS:           brew install --cask chromium"
    fail "or set FRESHLINE_CHROMIUM to one that you have; until then the tests of the page fail"
}

# With a class archive Spark's JVM starts in about 60 percent of the time; it works without one.
prepare_spark() {
    log "preparing the start of Spark (once; about half a minute)"
    .venv/bin/python -m freshline.spark.jvm_cds >/dev/null 2>&1 || log "the class archive could not be built; Spark starts slower and works the same"
}

if [ "${1:-}" = uv-version ]; then uv_version; exit; fi
if [ -x .venv/bin/python ] && good_python .venv/bin/python; then :; else make_venv; fi
if [ "${1:-}" = uv ]; then find_uv; exit; fi
if [ "${1:-}" = docs ]; then install_docs_packages; exit; fi
if [ "${1:-}" = browser ]; then ensure_chromium; exit; fi
install_packages
ensure_java
prepare_spark
.venv/bin/python scripts/build_page.py
log "ready"
