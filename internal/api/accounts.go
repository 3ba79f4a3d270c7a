package api

import (
	"strings"

	"muster/internal/kit/pattern"
)

// accountName is what people may be called: names of accounts (useradd(8)).
var accountName = pattern.New(`^[a-z][a-z0-9_-]{0,31}$`)

// systemNames are users and groups that images have, of Debian's base system and of what runs on nodes and machines: a person
// of such a name could come into its group, or be taken for its daemon.
const systemNames = `
	root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup
	adm tty disk kmem dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp video sasl plugdev staff users
	input sgx kvm render crontab wheel mem lock dbus messagebus netdev polkitd uuidd tss rdma ssh sshd ssl-cert lpadmin scanner bluetooth
	avahi tcpdump wireshark i2c gpio systemd-network systemd-resolve systemd-timesync systemd-journal systemd-coredump systemd-oom
	docker podman containerd lxd incus incus-admin libvirt libvirt-qemu libvirt-dnsmasq qemu vboxusers kubelet etcd
	munge slurm slurmrestd pbs sge lsf ganesha statd rpc rpcuser nfsnobody sssd nslcd chrony ntp postfix postdrop exim
	mysql postgres redis mongodb influxdb grafana prometheus node-exporter iperf3 dcgm nvidia-persistenced nvidia-imex
	puppet ansible gdm lightdm pulse pulse-access rtkit colord geoclue flatpak snapd cgred apptainer singularity muster`

// canBeAccount says whether a person may have a name.
func canBeAccount(name string) bool {
	return accountName.MatchString(name) && !strings.Contains(" "+strings.Join(strings.Fields(systemNames), " ")+" ",
		" "+name+" ") &&
		!strings.HasPrefix(name, "systemd-")
}
