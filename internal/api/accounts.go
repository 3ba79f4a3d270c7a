package api

import (
	"fmt"
	"slices"
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

// noAccount is why a person may not have a name; "": they may.
func noAccount(name string) string {
	other := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_", r) }
	fits := accountName.MatchString(name)
	switch {
	case fits && (slices.Contains(strings.Fields(systemNames), name) || strings.HasPrefix(name, "systemd-")):
		return "systems have a user or group of that name"
	case fits:
		return ""
	case name == "":
		return "it is empty"
	case accountName.MatchString(strings.ToLower(name)):
		return "it has capital letters"
	case len(name) > 32:
		return fmt.Sprintf("it has %d characters, and 32 are possible", len(name))
	case strings.ContainsFunc(name, other):
		first := []rune(name[strings.IndexFunc(name, other):])[0]
		return fmt.Sprintf("it has %q; possible are small letters of ASCII, digits, - and _", string(first))
	}
	return "it does not begin with a letter"
}

// accountLike is a name that a person may have and that is like another one; NAME if there is none.
func accountLike(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), "@")
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_':
			return r
		case r < 128:
			return '-'
		}
		return -1
	}, name)
	name = strings.TrimLeft(name, "0123456789-_")
	if name = name[:min(len(name), 32)]; noAccount(name) != "" {
		return "NAME"
	}
	return name
}
