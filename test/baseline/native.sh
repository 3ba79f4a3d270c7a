#!/bin/bash
# native.sh COMMAND [ARGUMENT...]: runs a program of the image on the bare host: the very same file, libraries and loader
# that a node runs, in a plain chroot, in the host's own pid, network, IPC and host name spaces, without control groups.
# What a node's figure is compared with:
#
#   IMAGE=FILE native.sh hpl 2000         prints "hpl_gflops X"
#   IMAGE=FILE native.sh stream-triad     prints "triad_gbs X"
#   IMAGE=FILE native.sh mpirun --allow-run-as-root -n 2 mpi-pingpong
#
# On a node the words after native.sh are the same. The mounts live in a mount namespace of this script's own, so that
# they end with it; nothing that runs inside costs more for that.
set -euo pipefail

: "${IMAGE:?is the path of the squashfs}"
(($# > 0)) || { echo "usage: IMAGE=FILE native.sh COMMAND [ARGUMENT...]" >&2; exit 2; }
((EUID == 0)) || { echo "native: needs root" >&2; exit 2; }
if [ -z "${NATIVE_INSIDE:-}" ]; then
    work=$(mktemp -d)
    trap 'rmdir "$work"' EXIT
    IMAGE=$(realpath "$IMAGE") NATIVE_INSIDE=$work unshare --mount "$0" "$@"
    exit
fi

mount -t tmpfs tmpfs "$NATIVE_INSIDE"
cd "$NATIVE_INSIDE"
mkdir lower upper work root
mount -t squashfs -o loop,ro "$IMAGE" lower
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay root
for dir in proc sys dev; do mount --rbind "/$dir" "root/$dir"; done
mount -t tmpfs tmpfs root/tmp
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TMPDIR=/tmp
exec chroot root /bin/sh -c 'cd /tmp && exec "$@"' sh "$@"
