# Runs as root inside the new image, with sh -eu.

# Whom QEMU runs as. The package that would make this user starts services as well. libvirt does not start without its group.
groupadd --system --force kvm
groupadd --system --force libvirt-qemu
useradd --system --gid kvm --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin libvirt-qemu

# Daemons are started by nobody but the agent, and it starts none here but libvirt.
find /etc/rc?.d -type l -delete 2>/dev/null || true
rm -rf /etc/systemd/system/*.wants
