package slurm

import (
	"io/fs"
	"path"
	"strings"

	"muster/internal/protocol"
)

// hooksDir is where nodes have the project's scripts, and what Slurm starts for each job as root: that runs the script as the
// job's user, and never fails, for which Slurm would drain the node.
const hooksDir = "/run/muster/hooks"

// hookSeconds is how long a script of the project's may take.
const hookSeconds = "60"

// asUser begins what Slurm starts. What a job has exported for itself is not in the environment here.
const asUser = "#!/bin/bash\n" + written + `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec < /dev/null
cd /
umask 077
said=` + hooksDir + `/said.$SLURM_JOB_ID
as_user() {
	[ -s "$1" ] && [ "$SLURM_JOB_UID" -ge 1000 ] || return 0 # the system's own jobs are not the project's
	timeout -k 5 ` + hookSeconds + ` setpriv --reuid "$SLURM_JOB_UID" --regid "$(id -g "$SLURM_JOB_UID")" --init-groups --no-new-privs \
		env HOME="$(getent passwd "$SLURM_JOB_UID" | cut -d : -f 6)" sh -c 'umask 022; cd 2> /dev/null; exec "$0"' "$1"
}
`

// hookScripts are what Slurm starts. The last one prints what the prolog has, for each program of the job: Slurm reads that.
// Where the prolog has failed, the job's user cannot read it, and the program does not start: the node may hear only after its
// prolog has ended that the job is cancelled.
func hookScripts() map[string]string {
	return map[string]string{
		"prolog": asUser + `set -o pipefail
first() { head -c "$1"; cat > /dev/null; }
if { as_user ` + hooksDir + `/project-prolog 2>&1 >&3 | first 300 > "$said.why"; } 3>&1 | first 16384 > "$said"; then
	chown "$SLURM_JOB_UID" "$said"
else
	why="the project's prolog ended with status $? on $(hostname): $(tr -c '[:print:]' ' ' < "$said.why")"
	scontrol update jobid="$SLURM_JOB_ID" admincomment="$why"
	scancel "$SLURM_JOB_ID"
fi
rm -f "$said.why"
exit 0
`,
		"epilog": asUser + `rm -f "$said"
as_user ` + hooksDir + `/project-epilog > /dev/null 2>&1
exit 0
`,
		"task-prolog": "#!/bin/sh\n" + written + "said=" + hooksDir + `/said.$SLURM_JOB_ID
[ ! -e "$said" ] || exec cat "$said"
`,
	}
}

// hookLines are those of slurm.conf where a project has hooks. A batch job is not lost while its prolog runs.
const hookLines = `# Scripts of the project's, once a job on each of its nodes.
Prolog=` + hooksDir + `/prolog
Epilog=` + hooksDir + `/epilog
TaskProlog=` + hooksDir + `/task-prolog
BatchStartTimeout=120
`

// putHooks writes the scripts of a compute node. They are there also where the project has none: Slurm may hear of hooks before
// this node does.
func (d *driver) putHooks(put func(name, content string, mode fs.FileMode, owner string) bool, hooks protocol.Hooks) error {
	err := d.Files.Directory(hooksDir, 0o711, "")
	for name, script := range hookScripts() {
		put(path.Join(hooksDir, name), script, 0o755, "")
	}
	for name, script := range map[string]string{"prolog": hooks.Prolog, "epilog": hooks.Epilog} {
		if script != "" && !strings.HasPrefix(script, "#!") {
			script = "#!/bin/bash\n" + script
		}
		put(path.Join(hooksDir, "project-"+name), script, 0o755, "")
	}
	return err
}
