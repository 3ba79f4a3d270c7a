package slurm

import (
	"path"
	"strings"
)

// commandsDir comes first in users' PATH.
const (
	commandsDir   = "/usr/local/bin"
	commandBegins = "#!/bin/sh\n" + written
)

// commands are scripts before programs of the same name, for what these get wrong on nodes like ours, and one of our own.
func commands() map[string]string {
	return map[string]string{
		// In a job Slurm says by variables how much memory it has. A job that is submitted there would have them too, beside
		// those of its own, and of memory for each CPU and for the node its srun takes one only.
		"sbatch": "unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE\nexec /usr/bin/sbatch \"$@\"\n",
		// It looks up the addresses of nodes in the configuration, where the head must not have them: see loginFile.
		"sattach": "[ ! -e " + loginFile + " ] || export SLURM_CONF=" + loginFile + "\nexec /usr/bin/sattach \"$@\"\n",
		jobOutput: outputOf,
		"mpirun":  components + "exec /usr/bin/mpirun \"$@\"\n",
		"mpiexec": components + "exec /usr/bin/mpiexec \"$@\"\n",
	}
}

// jobOutput prints the file that a job's standard output went to: slurmctld knows it for some minutes after the job's end, and
// slurmdbd for longer.
const (
	jobOutput = "muster-job-output"
	outputOf  = `path=$(scontrol show job "$1" 2>/dev/null | sed -n 's/^ *StdOut=//p' | head -n 1)
[ -n "$path" ] || path=$(sacct -Xnp --expand-patterns -j "$1" -o stdout 2>/dev/null | sed -n '1s/|$//p')
if [ -z "$path" ]; then
	echo "nobody knows where job $1 has written" >&2
	exit 1
fi
exec cat -- "$path"
`
)

// components has Open MPI start ranks on the nodes of all components of a heterogeneous job. Slurm tells of each component by
// variables that Open MPI does not read: it would start all ranks where it is called. Ranks come by ssh, since Slurm's own way,
// one srun, takes one component.
const components = `if [ -n "$SLURM_HET_SIZE" ]; then
	hosts= i=0
	add() {
		counts=$2
		for node in $1; do
			hosts=$hosts,$node:${counts%% *} counts=${counts#* }
		done
	}
	while [ "$i" -lt "$SLURM_HET_SIZE" ]; do
		eval "nodes=\$SLURM_JOB_NODELIST_HET_GROUP_$i tasks=\$SLURM_TASKS_PER_NODE_HET_GROUP_$i"
		add "$(scontrol show hostnames "$nodes")" "$(echo "$tasks" | tr , '\n' |
			awk -F '[(x)]+' '{ for (n = $2 ? $2 : 1; n > 0; n--) printf "%s ", $1 }')"
		i=$((i + 1))
	done
	export OMPI_MCA_plm=rsh OMPI_MCA_ras=^slurm PRTE_MCA_plm=ssh PRTE_MCA_ras=^slurm # of versions 4 and 5
	set -- --host "${hosts#,}" "$@"
fi
`

// putCommands writes the scripts. One that an image brings stays.
func (d *driver) putCommands(put func(name, content string)) {
	for name, script := range commands() {
		name = path.Join(commandsDir, name)
		if there, err := d.Files.Read(name); err == nil && (there == "" || strings.HasPrefix(there, commandBegins)) {
			put(name, commandBegins+script)
		}
	}
}
