#!/bin/bash
# Builds a machine with the Podman that a Debian release ships, from that release's packages:
#
#   build_image.sh SUITE     SUITE is trixie (13: Podman 5.4) or bookworm (12: Podman 4.3)
#
# Prints the folder that holds disk.ext4, vmlinuz and initrd.img. It is a cache: made once for each text of this script,
# in ${XDG_CACHE_HOME:-~/.cache}/piriscale-vm, and never changed afterwards. Needs root and an apt with a Debian
# archive among its sources, whose address it takes over; installs the tools it needs. Progress goes to stderr.
set -euo pipefail

readonly suite=${1:?which Debian release: trixie or bookworm}
readonly disk_size=3G # sparse; what is not used takes no room
readonly user=driver uid=1000
readonly packages=(
    linux-image-cloud-amd64 systemd systemd-sysv udev dbus libpam-systemd
    podman crun conmon netavark aardvark-dns catatonit nftables ca-certificates
    uidmap dbus-user-session passt fuse-overlayfs slirp4netns
    mosquitto busybox-static python3 procps util-linux iproute2
)

say() { printf 'build_image: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

cache=${XDG_CACHE_HOME:-$HOME/.cache}/piriscale-vm
key=$(sha256sum <"${BASH_SOURCE[0]}")
readonly cache image=$cache/$suite-${key:0:16}

install_tools() {
    local missing=()
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    [ ${#missing[@]} -eq 0 ] && return
    say "installing with apt-get: ${missing[*]}"
    apt-get -q update || true
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 install "${missing[@]}"
}

# Where this machine gets its own Debian packages from, if it gets any.
mirror() {
    apt-get indextargets --format '$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian Debian main //p' | head -n 1
}

in_root() { DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$root" "$@"; }

unpack_packages() {
    local archive proxy=""
    archive=$(mirror)
    [ -n "$archive" ] || fail "apt has no Debian archive among its sources; add one, and run apt-get update"
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    [ -z "$proxy" ] || export http_proxy=$proxy
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$archive"
    # Nothing is started in there, and no documents are unpacked: this is unpacked again at each build, and never read.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    printf 'path-exclude=/usr/share/%s/*\n' doc man locale info >"$root/etc/dpkg/dpkg.cfg.d/small"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    mount -t proc proc "$root/proc"
    mkdir -p "$root/etc/initramfs-tools"
    in_root apt-get -q update
    in_root apt-get -q -y --no-install-recommends install initramfs-tools
    # All it has to find is a virtio disk with ext4; anything more is unpacked at every boot.
    printf '%s\n' virtio_pci virtio_blk virtio_console ext4 >"$root/etc/initramfs-tools/modules"
    sed -i -e 's/^MODULES=.*/MODULES=list/' -e 's/^COMPRESS=.*/COMPRESS=lz4/' "$root/etc/initramfs-tools/initramfs.conf"
    in_root apt-get -q -y --no-install-recommends install lz4 "${packages[@]}"
    in_root apt-get -q clean
    umount "$root/proc"
    rm -rf "$root"/var/lib/apt/lists/* "$root/usr/sbin/policy-rc.d" "$root/etc/resolv.conf"
}

# Takes out what a machine without network, clock and people does not need at boot.
configure() {
    echo piriscale >"$root/etc/hostname"
    printf '127.0.0.1 localhost piriscale\n' >"$root/etc/hosts"
    echo 00000000000000000000000000000001 >"$root/etc/machine-id" # an empty one means "first boot", which takes longer
    echo 'LABEL=checkout /opt/checkout ext4 ro,nofail 0 0' >"$root/etc/fstab"
    mkdir -p "$root/opt/checkout" "$root/var/log/journal" # a user can read his journal only if it is kept on disk
    in_root systemctl mask serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer \
        dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer podman-auto-update.timer systemd-timesyncd.service \
        podman-restart.service e2scrub_reap.service mosquitto.service

    # Quadlets of users wait a minute and a half for this target, which nothing else here would reach.
    in_root systemctl add-wants multi-user.target network-online.target

    in_root useradd --create-home --uid "$uid" --shell /bin/bash "$user"
    printf '%s:100000:65536\n' "$user" | tee "$root/etc/subuid" >"$root/etc/subgid"
    mkdir -p "$root/var/lib/systemd/linger"
    touch "$root/var/lib/systemd/linger/$user"

    # The host speaks to the guest through one virtio port; what answers there comes with the checkout.
    cat >"$root/etc/systemd/system/command.service" <<'UNIT'
[Unit]
Description=Runs what the host asks for
RequiresMountsFor=/opt/checkout

[Service]
ExecStart=/usr/bin/python3 -u /opt/checkout/tests/vm/guest/server.py /dev/virtio-ports/command
StandardOutput=journal+console
StandardError=journal+console
KillMode=process
Delegate=yes
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
UNIT
    in_root systemctl enable command.service
}

pack() {
    cp --dereference "$root/vmlinuz" "$work/vmlinuz"
    cp --dereference "$root/initrd.img" "$work/initrd.img"
    rm -rf "$root"/boot/initrd* "$root"/boot/vmlinuz*
    # Without a journal of the file system: the disk is thrown away after each run.
    mkfs.ext4 -q -L root -O ^has_journal -d "$root" "$work/disk.ext4" "$disk_size"
    rm -rf "$root"
}

# In a mount namespace of its own, so that no mount is left behind whatever happens.
if [ "${2:-}" = in-own-namespace ]; then
    readonly work=$3 root=$3/root
    unpack_packages
    configure
    pack
    exit
fi

[ "$(id -u)" -eq 0 ] || fail "must be root, for chroot and apt-get"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
install_tools >&2
if [ ! -d "$image" ]; then
    started=$SECONDS
    work=$(mktemp -d "$cache/unfinished.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "building $suite; the log is $cache/$suite.log"
    unshare --mount "$BASH" "${BASH_SOURCE[0]}" "$suite" in-own-namespace "$work" >"$cache/$suite.log" 2>&1 9>&- || {
        tail -n 40 "$cache/$suite.log" >&2
        fail "could not build $suite; the whole log is $cache/$suite.log"
    }
    mv "$work" "$image"
    say "built $suite in $((SECONDS - started)) s"
fi
find "$cache" -mindepth 1 -maxdepth 1 -type d -name "$suite-*" ! -path "$image" -exec rm -rf {} +
echo "$image"
