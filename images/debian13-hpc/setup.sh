# Runs as root inside the new image, with sh -eu.

# Slurm dlopens PMIx by its unversioned name, which only the -dev package ships; without it srun --mpi=pmix fails.
for pmix in /usr/lib/*/pmix2/lib/libpmix.so.2; do
    [ -e "${pmix%.2}" ] || ln -s libpmix.so.2 "${pmix%.2}"
done

# The measuring programs, from the sources that stay beside them. No -march=native: the image goes to other machines.
src=/usr/local/src/muster
mpicc -O2 -Wall -Werror -o /usr/local/bin/mpi-pingpong "$src/mpi-pingpong.c"
mpicc -O2 -Wall -Werror -o /usr/local/bin/mpi-sweep "$src/mpi-sweep.c"
gcc -O3 -fopenmp -Wall -Werror -o /usr/local/bin/stream-triad "$src/stream-triad.c"
gcc -O2 -Wall -Werror -o /usr/local/bin/dgemm "$src/dgemm.c" -l:libblas.so.3 -lm
chmod 755 /usr/local/bin/hpl

# What the head's NFS server is started with. Headers of ntirpc 6 name a config.h that Debian does not ship; only tracing, which
# is off, would read it.
install -d /usr/lib/muster /tmp/ntirpc
: >/tmp/ntirpc/config.h
gcc -O2 -fPIC -shared -I/usr/include/ntirpc -I/tmp/ntirpc -Wall -Werror -o /usr/lib/muster/nfs-users.so "$src/nfs-users.c"

# Nodes have no password logins; daemons are started by the node's agent, not by whatever was enabled at install.
find /etc/rc?.d -type l -delete 2>/dev/null || true
rm -rf /etc/systemd/system/*.wants

# ldconfig's own cache of what it has seen carries inode numbers and times.
rm -f /var/cache/ldconfig/aux-cache
