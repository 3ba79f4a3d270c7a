# The first process of a node: node.sh head|compute HEAD_ADDRESS. It starts the daemons and reaps what they leave.
role=$1 head=$2
trap 'kill $(jobs -p) 2>/dev/null; exit 0' TERM INT

mkdir -p /run/munge /run/slurm
chown munge: /run/munge
chmod 755 /run/munge
setpriv --reuid=munge --regid=munge --clear-groups munged --force

if [ "$role" = head ]; then
    mkdir -p /var/spool/slurmctld
    slurmctld -D -f /etc/slurm/slurm.conf &
else
    mkdir -p /var/spool/slurmd
    until (: < "/dev/tcp/$head/6817") 2>/dev/null; do sleep 0.02; done
    slurmd -D --conf-server "$head:6817" &
fi
while :; do wait -n; sleep 0.1; done
