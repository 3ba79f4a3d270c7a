# Runs as root inside the new image, with sh -eu.

# Slurm dlopens PMIx by its unversioned name, which only the -dev package ships; without it srun --mpi=pmix fails.
for pmix in /usr/lib/*/pmix2/lib/libpmix.so.2; do
    [ -e "${pmix%.2}" ] || ln -s libpmix.so.2 "${pmix%.2}"
done

# The measuring programs, from the sources that stay beside them. No -march=native: the image goes to other machines.
src=/usr/local/src/muster
mpicc -O2 -Wall -Werror -o /usr/local/bin/mpi-pingpong "$src/mpi-pingpong.c"
mpicc -O2 -Wall -Werror -o /usr/local/bin/mpi-sweep "$src/mpi-sweep.c"
mpicc -O2 -Wall -Werror -o /usr/local/bin/mpi-io "$src/mpi-io.c"
mpicc -O2 -Wall -Werror -o /usr/local/bin/mpi-together "$src/mpi-together.c"
gcc -O2 -Wall -Werror -o /usr/local/bin/kernels "$src/kernels.c" -lm
gcc -O3 -fopenmp -Wall -Werror -o /usr/local/bin/stream-triad "$src/stream-triad.c"
gcc -O2 -Wall -Werror -o /usr/local/bin/dgemm "$src/dgemm.c" -l:libblas.so.3 -lm
chmod 755 /usr/local/bin/hpl

# The plugin of Slurm's that plugstack.conf beside it names.
gcc -O2 -fPIC -shared -Wall -Werror -o /usr/lib/muster/pmix-step.so "$src/pmix-step.c"

# LAMMPS, with what it is linked to in a folder of its own: as packages that would come with X, Tk and a compiler for shaders.
# Debian 12 has it under other names, and is without it.
if ! grep -q '^VERSION_ID="12"' /etc/os-release; then
    mkdir /tmp/lammps
    cd /tmp/lammps
    apt-get download -qq lammps liblammps0t64 lammps-data libvtk9.3 libkim-api2 libhdf5-310 libhdf5-hl-310 libnetcdf22 \
        libpnetcdf6 libsz2 libaec0 libvoro++1 libfftw3-double3 libjpeg62-turbo libpng16-16t64 libdouble-conversion3 libtbb12 \
        libcurl3t64-gnutls libngtcp2-16 libngtcp2-crypto-gnutls8 libpython3.13
    for package in *.deb; do
        dpkg --fsys-tarfile "$package" | tar -x
    done
    install -d /usr/local/lib/lammps /usr/local/share/lammps /usr/local/share/doc/lammps
    cp usr/bin/lmp /usr/local/lib/lammps/
    cp usr/share/lammps/potentials/Cu_u3.eam /usr/local/share/lammps/
    for there in usr/share/doc/*/copyright; do
        cp "$there" "/usr/local/share/doc/lammps/$(basename "$(dirname "$there")")"
    done
    LD_LIBRARY_PATH=$(echo /tmp/lammps/usr/lib/*-linux-gnu) ldd usr/bin/lmp | sed -n 's|.* => \(/tmp/[^ ]*\) .*|\1|p' |
        xargs cp -Lt /usr/local/lib/lammps
    printf '#!/bin/sh\nLD_LIBRARY_PATH=/usr/local/lib/lammps exec /usr/local/lib/lammps/lmp "$@"\n' >/usr/local/bin/lmp
    chmod 755 /usr/local/bin/lmp
    cd /
fi

# What the head's NFS server is started with. Headers of ntirpc 6 name a config.h that Debian does not ship; only tracing, which
# is off, would read it.
install -d /tmp/ntirpc
: >/tmp/ntirpc/config.h
gcc -O2 -fPIC -shared -I/usr/include/ntirpc -I/tmp/ntirpc -Wall -Werror -o /usr/lib/muster/nfs-users.so "$src/nfs-users.c"

# Nodes have no password logins; daemons are started by the node's agent, not by whatever was enabled at install.
find /etc/rc?.d -type l -delete 2>/dev/null || true
rm -rf /etc/systemd/system/*.wants

# ldconfig's own cache of what it has seen carries inode numbers and times.
rm -f /var/cache/ldconfig/aux-cache
