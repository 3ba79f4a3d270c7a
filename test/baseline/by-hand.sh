#!/bin/bash
# by-hand.sh N [JOBS]: what a skilled person does without Muster. Starts one head and N nodes from the image with runc, Slurm
# with a static node list, waits until all N are idle, prints "cluster_start_seconds N T", and takes all of it down.
#
#   IMAGE  the image's squashfs
#   WORK   a folder for scratch files; a new folder is made in it and removed
#
# The clock starts before anything is made (the mount of the image, networks, keys, configuration) and stops when sinfo
# on the head shows N idle nodes. CHECK=1 runs an MPI job afterwards, outside the clock. HOLD=1 leaves the nodes there until
# standard input ends; for a line of it, an MPI job of all nodes runs first, and "first_job_seconds N T" says how long it took.
# With JOBS, array.sh runs that many on the head, outside the clock.
set -euo pipefail

nodes=${1:?usage: IMAGE=FILE WORK=DIR by-hand.sh N [JOBS]} jobs=${2:-0}
: "${IMAGE:?is the path of the image\'s squashfs}" "${WORK:?is a folder for scratch files}"
case $nodes in *[!0-9]* | 0*) echo "by-hand: $nodes is not a number of nodes" >&2; exit 2 ;; esac
((nodes <= 240)) || { echo "by-hand: at most 240 nodes" >&2; exit 2; }
((EUID == 0)) || { echo "by-hand: needs root" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
IMAGE=$(realpath "$IMAGE")
mkdir -p "$WORK"
work=$(mktemp -d "$(realpath "$WORK")/by-hand.XXXXXX")
id=byhand$$
memory_mib=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024 * 9 / 10))

all() { echo head; seq -f n%g "$nodes"; }
address() { if [ "$1" = head ]; then echo 10.77.0.250; else echo "10.77.0.${1#n}"; fi; }
on() { local node=$1; shift; runc --root "$work/runc" exec "$id-$node" "$@"; }

teardown() {
    set +e
    trap '' INT TERM
    for node in $(all); do
        [ -d "$work/runc/$id-$node" ] && echo "$id-$node"
    done | xargs -r -P 8 -n 1 runc --root "$work/runc" delete -f
    for node in $(all); do
        [ -e "/run/netns/$id-$node" ] && ip netns del "$id-$node"
        mountpoint -q "$work/$node/rootfs" && umount "$work/$node/rootfs"
    done
    [ -e "/run/netns/$id" ] && ip netns del "$id"
    mountpoint -q "$work/image" && umount "$work/image"
    for group in /sys/fs/cgroup/"$id" /sys/fs/cgroup/*/"$id"; do
        [ -d "$group" ] && rmdir "$group"
    done
    rm -rf --one-file-system "$work"
}
trap teardown EXIT
trap 'exit 130' INT TERM

# The bridge lives in a namespace of its own; each node's end of its cable is in the node's.
make_network() {
    ip netns add "$id"
    ip -n "$id" -batch - <<< "
        link add br0 type bridge
        link set lo up
        link set br0 up"
    all | sed "s/^/netns add $id-/" | ip -batch -
    for node in $(all); do echo "link add v-$node type veth peer name eth0 netns $id-$node"; done | ip -n "$id" -batch -
    for node in $(all); do printf 'link set v-%s master br0 up\n' "$node"; done | ip -n "$id" -batch -
    for node in $(all); do
        printf 'link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n' "$(address "$node")" |
            ip -n "$id-$node" -batch -
    done
}

write_configuration() {
    mkdir -p "$work/etc/slurm" "$work/etc/munge"
    head -c 1024 /dev/urandom > "$work/etc/munge/munge.key"
    echo "127.0.0.1 localhost" > "$work/etc/hosts"
    for node in $(all); do echo "$(address "$node") $node"; done >> "$work/etc/hosts"
    cat > "$work/etc/slurm/slurm.conf" <<-END
		ClusterName=byhand
		SlurmctldHost=head
		SlurmctldParameters=enable_configless
		SlurmdParameters=config_overrides
		AuthType=auth/munge
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/linux
		MpiDefault=pmix
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		ReturnToService=2
		MaxArraySize=100001
		MaxJobCount=100000
		TreeWidth=65533
		SlurmUser=root
		StateSaveLocation=/var/spool/slurmctld
		SlurmdSpoolDir=/var/spool/slurmd
		SlurmctldLogFile=/var/log/slurm/slurmctld.log
		SlurmdLogFile=/var/log/slurm/slurmd.log
		NodeName=n[1-$nodes] CPUs=$(nproc) RealMemory=$memory_mib State=UNKNOWN
		PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
    # Named, as slurmd would otherwise look for control groups, and end when the node has none.
    echo CgroupPlugin=cgroup/v1 > "$work/etc/slurm/cgroup.conf"
    # Without it a rank crashes in MPI_Init now and then (docs/decisions/slurm.md).
    echo PMIxCollFence=ring > "$work/etc/slurm/mpi.conf"
}

# One template; @…@ is filled in for each node.
write_template() {
    local caps='"CAP_CHOWN","CAP_DAC_OVERRIDE","CAP_FOWNER","CAP_FSETID","CAP_KILL","CAP_SETGID","CAP_SETUID","CAP_SETPCAP","CAP_NET_BIND_SERVICE","CAP_NET_RAW","CAP_SYS_CHROOT","CAP_SYS_NICE"'
    cat > "$work/config.json" <<-END
		{"ociVersion": "1.0.2", "hostname": "@node@", "root": {"path": "rootfs"},
		 "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/",
		  "args": ["/bin/bash", "/node.sh", "@role@", "$(address head)"],
		  "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "OMPI_MCA_mpi_yield_when_idle=1"],
		  "capabilities": {"bounding": [$caps], "effective": [$caps], "permitted": [$caps]}},
		 "mounts": [
		  {"destination": "/proc", "type": "proc", "source": "proc"},
		  {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
		  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
		  {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666"]},
		  {"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
		  {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]}],
		 "linux": {"cgroupsPath": "/$id/@node@", "namespaces": [
		  {"type": "pid"}, {"type": "mount"}, {"type": "uts"}, {"type": "ipc"},
		  {"type": "network", "path": "/run/netns/$id-@node@"}]}}
	END
}

# The overlay's upper layer carries what is the node's own.
start_node() {
    local node=$1 role=$2 dir=$work/$1
    mkdir -p "$dir/upper/etc/munge" "$dir/work" "$dir/rootfs"
    cp "$work/etc/hosts" "$dir/upper/etc/hosts"
    cp "$here/node.sh" "$dir/upper/node.sh"
    install -o "$munge_uid" -g "$munge_gid" -m 400 "$work/etc/munge/munge.key" "$dir/upper/etc/munge/munge.key"
    chown "$munge_uid:$munge_gid" "$dir/upper/etc/munge"
    chmod 700 "$dir/upper/etc/munge"
    if [ "$role" = head ]; then cp -r "$work/etc/slurm" "$dir/upper/etc/slurm"; fi
    sed "s/@node@/$node/g; s/@role@/$role/g" "$work/config.json" > "$dir/config.json"
    mount -t overlay -o "lowerdir=$work/image,upperdir=$dir/upper,workdir=$dir/work" overlay "$dir/rootfs"
    runc --root "$work/runc" run -d --bundle "$dir" "$id-$node" < /dev/null > "$dir/console" 2>&1
}

# Nodes that are idle and answer; those that slurmctld has not heard of yet are "idle*" or "unk*".
idle() { on head sinfo -h -o '%D %t' 2>/dev/null | awk '$2 == "idle" {n += $1} END {print n + 0}'; }

began=$EPOCHREALTIME
mkdir "$work/image"
mount -t squashfs -o loop,ro "$IMAGE" "$work/image"
IFS=: read -r _ _ munge_uid munge_gid _ < <(grep '^munge:' "$work/image/etc/passwd")
make_network
write_configuration
write_template
start_node head head
for ((i = 1; i <= nodes; i++)); do
    start_node "n$i" compute &
    ((i % 4 == 0)) && wait
done
wait
deadline=$((SECONDS + 120))
until (($(idle) == nodes)); do
    if ((SECONDS > deadline)); then
        echo "by-hand: $(idle) of $nodes nodes are idle after 120 s; the console of the head and n1:" >&2
        tail -n 5 "$work/head/console" "$work/n1/console" >&2
        exit 1
    fi
    sleep 0.02
done
ended=$EPOCHREALTIME
echo "cluster_start_seconds $nodes $(awk -v a="$began" -v b="$ended" 'BEGIN {printf "%.3f", b - a}')"

if ((jobs)); then on head bash -c "$(cat "$here/array.sh")" array.sh "$jobs"; fi

if [ "${HOLD:-0}" = 1 ]; then
    if read -r; then
        began=$EPOCHREALTIME
        on head srun --mpi=pmix -N"$nodes" -n"$((nodes > 1 ? nodes : 2))" -O mpi-sweep --short barrier 1 0 > /dev/null
        echo "first_job_seconds $nodes $(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.3f", b - a}')"
    fi
    cat > /dev/null
fi

if [ "${CHECK:-0}" = 1 ]; then
    on head srun -N"$nodes" hostname | sort -V | tr '\n' ' '; echo
    ((nodes < 2)) || on head srun -N2 -n2 mpi-pingpong
fi
