#!/usr/bin/env bash
# Installs the Debian packages that Muster needs: `setup.sh run` to run it, `setup.sh test` to test it as well.
# Installs nothing that is there already, and asks the network only then.
set -euo pipefail

declare -A programs=( # package → a file that shows it is there
    [runc]=/usr/sbin/runc
    [mmdebstrap]=/usr/bin/mmdebstrap
    [squashfs-tools]=/usr/bin/mksquashfs
    [xfsprogs]=/usr/sbin/mkfs.xfs
    [zstd]=/usr/bin/zstd
    [iproute2]=/usr/bin/ip
    [openssh-client]=/usr/bin/ssh
    [procps]=/usr/bin/ps
    [ipxe]=/usr/lib/ipxe/undionly.kpxe
    # what holds guests
    [qemu-system-x86]=/usr/bin/qemu-system-x86_64
    [libvirt-daemon]=/usr/sbin/libvirtd
    [libvirt-daemon-driver-qemu]='/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so'
)
if [[ ${1:-run} == test ]]; then
    programs+=(
        [postgresql]='/usr/lib/postgresql/*/bin/initdb'
        [busybox-static]=/usr/bin/busybox
        [gcc]=/usr/bin/gcc
        [libc6-dev]=/usr/include/stdio.h
        [python3-venv]='/usr/share/doc/python3-venv'
        [tcpdump]=/usr/bin/tcpdump
        [libvirt-clients]=/usr/bin/virt-xml-validate
        [libxml2-utils]=/usr/bin/xmllint
        # what an inspected machine runs
        [nvme-cli]=/usr/sbin/nvme
        [smartmontools]=/usr/sbin/smartctl
        [hdparm]=/sbin/hdparm
        [sg3-utils]=/usr/bin/sg_sanitize
        [pciutils]=/usr/bin/lspci
        [ethtool]=/sbin/ethtool
        [kmod]=/usr/sbin/depmod
        [cpio]=/usr/bin/cpio
        [ovmf]=/usr/share/OVMF/OVMF_CODE_4M.fd
        [ipxe-qemu]=/usr/lib/ipxe/qemu/efi-virtio.rom
        [ipmitool]=/usr/bin/ipmitool
        [etherwake]=/usr/sbin/etherwake
        [dnsmasq-base]=/usr/sbin/dnsmasq
        [isc-dhcp-client]=/usr/sbin/dhclient
        [tftp-hpa]=/usr/bin/tftp
        # peers of the boot services in `make compare`
        [nginx-light]=/usr/sbin/nginx
        [kea-dhcp4-server]=/usr/sbin/kea-dhcp4
        [kea-admin]=/usr/sbin/perfdhcp
        [tftpd-hpa]=/usr/sbin/in.tftpd
        [curl]=/usr/bin/curl
        # uses the console
        [chromium]=/usr/bin/chromium
        [rsync]=/usr/bin/rsync
        [openipmi]=/usr/bin/ipmi_sim
        [openvswitch-switch]=/usr/sbin/ovs-vswitchd
        # a simulated InfiniBand fabric, with its real manager
        [opensm]=/usr/sbin/opensm
        [ibsim-utils]=/usr/bin/ibsim
        [infiniband-diags]=/usr/sbin/smpquery
        # a provider to log in at, without a database server
        [glewlwyd]=/usr/bin/glewlwyd
        [dbconfig-no-thanks]=/usr/share/doc/dbconfig-no-thanks
    )
fi

missing=()
for package in "${!programs[@]}"; do
    compgen -G "${programs[$package]}" >/dev/null || missing+=("$package")
done
if ! command -v go >/dev/null; then
    echo "setup: Go is missing; install Go 1.26 or newer" >&2
    exit 1
fi
if ((EUID != 0)); then
    echo "setup: root is needed: Muster makes namespaces and mounts; run as root" >&2
    exit 1
fi
if ((${#missing[@]})); then
    echo "setup: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # A server that apt starts by itself is nobody's wish here: tests start their own.
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    if [[ " ${missing[*]} " == *" glewlwyd "* ]]; then # tests configure their own
        echo 'glewlwyd glewlwyd/config_type select No configuration' | debconf-set-selections
    fi
    log=$(mktemp)
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        echo "setup: apt-get failed:" >&2
        tail -20 "$log" >&2
        exit 1
    fi
    rm -f "$log"
fi

if ! getent passwd libvirt-qemu >/dev/null; then # whom QEMU runs as; libvirt-daemon-system would make it, and start services
    groupadd --system --force kvm
    groupadd --system --force libvirt-qemu # libvirt does not start without it
    useradd --system --gid kvm --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin libvirt-qemu
fi

if [[ ${1:-run} == test && ! ( -x build/venv/bin/schemathesis && -x build/venv/bin/sushy-emulator ) ]]; then
    echo "setup: installing schemathesis and sushy-tools into build/venv"
    python3=/usr/bin/python3
    "$python3" -m venv build/venv
    build/venv/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.5 sushy-tools==2.2.0
fi
