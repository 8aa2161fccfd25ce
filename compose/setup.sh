# shellcheck shell=bash
# Makes this checkout runnable on a Debian that has only python3 and apt. Sourced by the commands beside it,
# which then call `setup PROFILE`:
#
#   run        .venv with piriscale, and nothing else
#   simulated  the same and mosquitto: all of piriscale but real containers
#   demo       the same and Podman
#   bench      demo, network namespaces, Prometheus and Mosquitto's own clients; bench-simulated: without Podman
#   test       demo and the developer's tools
#
# Installs only what is missing. stdout stays empty; progress and errors go to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
stamp=$venv/.piriscale-setup
readonly root venv stamp
readonly oldest_python="3.11"

# mosquitto and runc live in sbin, which is not on an ordinary user's PATH.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf 'piriscale: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# Runs a command silently; if it fails, shows what it said.
quietly() {
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
}

# --- Debian packages ------------------------------------------------------------------------------------------

has() { command -v "$1" >/dev/null; }

# The demo's images are this one file, so it must not need shared libraries.
has_static_busybox() {
    has busybox && [[ $(LC_ALL=C ldd "$(command -v busybox)" 2>&1) == *"not a dynamic"* ]]
}

# ensurepip is what Debian keeps out of python3 and puts into python3-venv.
has_venv() { is_ready dev run || python3 -c 'import ensurepip, venv' 2>/dev/null; }

# Prints the packages that PROFILE still lacks.
missing_packages() {
    has_venv || echo python3-venv
    [ "$1" != run ] || return 0
    has mosquitto || echo mosquitto
    if [[ $1 == bench* ]]; then
        has ip || echo iproute2
        has mosquitto_pub || echo mosquitto-clients
        has prometheus || echo prometheus
    fi
    [[ $1 != *simulated ]] || return 0
    has podman || echo podman
    # crun, Podman's first choice, cannot create containers where cgroup v1 and v2 are mixed; runc can everywhere.
    has runc || echo runc
    has_static_busybox || echo busybox-static
}

# Runs as root, perhaps through sudo, so it stands on its own.
install_packages() {
    set -eu
    export DEBIAN_FRONTEND=noninteractive
    policy=/usr/sbin/policy-rc.d mark="written by piriscale's compose/setup.sh for the time of one apt-get; may be removed"
    # We start our own broker on our own port. Debian would start its packaged one on 1883 right away.
    if [ ! -e "$policy" ] || grep -qF "$mark" "$policy"; then
        trap 'rm -f "$policy"' EXIT
        trap 'exit 130' INT TERM HUP
        printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" >"$policy"
        chmod 755 "$policy"
    fi
    # Old lists may still do, so a failed update alone is no reason to stop.
    apt-get -q update || true
    apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install "$@"
    # Nor at the next boot: a broker that nobody asked for would take the port.
    for service in mosquitto prometheus; do
        case " $* " in
            *" $service "*) [ ! -d /run/systemd/system ] || systemctl disable "$service.service" ;;
        esac
    done
}

ensure_packages() {
    local missing as_root=()
    mapfile -t missing < <(missing_packages "$1")
    [ ${#missing[@]} -gt 0 ] || return 0
    local by_hand="apt-get install --no-install-recommends ${missing[*]}"
    has apt-get || fail "these Debian packages, or the like of them, are missing: ${missing[*]} (there is no apt-get here)"
    if [ "$(id -u)" -ne 0 ]; then
        has sudo || fail "missing: ${missing[*]}. There is no sudo here; as root run: $by_hand"
        # Asks for the password, if one is needed and somebody is there to type it.
        sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; } ||
            fail "missing: ${missing[*]}. sudo was refused; as root run: $by_hand"
        as_root=(sudo -n)
    fi
    say "installing with apt-get: ${missing[*]}"
    quietly "${as_root[@]}" bash -c "$(declare -f install_packages); install_packages \"\$@\"" bash "${missing[@]}" ||
        fail "apt-get could not install ${missing[*]}; its output is above. By hand: $by_hand"
    hash -r
    mapfile -t missing < <(missing_packages "$1")
    [ ${#missing[@]} -eq 0 ] || fail "still missing after the installation: ${missing[*]} (python3 is $(command -v python3))"
}

# --- The virtual environment ----------------------------------------------------------------------------------

# What the environment was made from. Another text means that it has to be made, or filled, again.
fingerprint() {
    printf '%s\n%s\n%s\n' "$root" "$("$venv/bin/python" -V 2>&1)" "$(sha256sum <"$root/pyproject.toml")"
}

# Is it filled from this pyproject.toml? One with the developer's tools is good for everything.
is_ready() {
    local extras
    [ -x "$venv/bin/python" ] || return 1
    for extras in "$@"; do
        [ "$(cat "$stamp.$extras" 2>/dev/null)" != "$(fingerprint)" ] || return 0
    done
    return 1
}

# Does it work at all? Not if the folder was moved or Debian was upgraded to another Python.
is_usable() {
    "$venv/bin/python" -c 'import pip' 2>/dev/null && grep -qF "$venv/bin/python" "$venv/bin/pip"
}

ensure_venv() {
    local extras=$1 what=$root started=$SECONDS
    if [ "$extras" = dev ]; then
        is_ready dev && return
        what="${root}[dev]"
    else
        is_ready dev run && return
    fi
    if ! is_usable; then
        say "making .venv"
        quietly python3 -m venv --clear "$venv" || fail "python3 could not make $venv; its output is above"
    fi
    say "installing piriscale and its Python packages into .venv"
    rm -f "$stamp".*
    quietly "$venv/bin/python" -m pip --disable-pip-version-check install -e "$what" ||
        fail "pip could not install them; its output is above"
    fingerprint >"$stamp.$extras"
    say ".venv is ready ($((SECONDS - started)) s)"
}

# --------------------------------------------------------------------------------------------------------------

# setup PROFILE
setup() {
    local profile=$1 extras=run
    [ "$profile" != test ] || extras=dev
    has python3 || fail "python3 is missing; as root run: apt-get install python3"
    python3 -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$oldest_python'.split('.'))))" ||
        fail "$(command -v python3) is $(python3 -V 2>&1), but piriscale needs $oldest_python or newer (Debian 12 or later)"
    # One at a time; who comes second finds everything done. A subshell, so that the lock ends here.
    (
        flock 9
        ensure_packages "$profile"
        ensure_venv "$extras"
    ) 9<"$root" >&2
}
