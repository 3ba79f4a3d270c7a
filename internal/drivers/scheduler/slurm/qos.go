package slurm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/internal/protocol"
)

const (
	qosFile   = "/run/muster/qos"
	ours      = "cluster-file" // the description of QOS that come from there; others are root's, and are left alone
	normalQOS = "normal"       // that of jobs that name none; Slurm makes it
)

// qosLimits is what sacctmgr makes of a QOS, as words of a command. -1 takes a limit away.
func qosLimits(q protocol.QOS) string {
	limit := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	return fmt.Sprintf("Priority=%d MaxWall=%d MaxTRESPerJob=node=%d MaxTRESPerUser=cpu=%d,node=%d MaxJobsPerUser=%d "+
		"MaxSubmitJobsPerUser=%d", q.Priority, limit(q.Minutes), limit(q.Nodes), limit(q.UserCPUs), limit(q.UserNodes),
		limit(q.UserJobs), limit(q.UserSubmitted))
}

// qosChanges compares the QOS that the file has with what `sacctmgr show qos` printed, as name|description. It returns those to
// add by name, and commands for sacctmgr that make all be so. A QOS that is no longer in the file stays for what was recorded,
// and is taken from the account, so that no job may name it. A job that asks for more than its QOS ever gives is refused
// (DenyOnLimit) instead of waiting for ever.
func qosChanges(account string, want []protocol.QOS, printed string) (add []string, commands []string) {
	there, dropped := map[string]bool{}, []string{}
	for line := range strings.Lines(printed) {
		name, description, _ := strings.Cut(strings.TrimSpace(line), "|")
		there[name] = true
		if description == ours && !slices.ContainsFunc(want, func(q protocol.QOS) bool { return q.Name == name }) {
			dropped = append(dropped, name)
		}
	}
	var names []string
	for _, q := range want {
		names = append(names, q.Name)
		if !there[q.Name] {
			add = append(add, q.Name)
		}
		commands = append(commands, fmt.Sprintf("modify qos %s set Description=%s Flags=DenyOnLimit %s", q.Name, ours,
			qosLimits(q)))
	}
	if len(names) > 0 {
		commands = append(commands, fmt.Sprintf("modify account %s set qos+=%s", account, strings.Join(names, ",")))
	}
	for _, name := range dropped {
		if name == normalQOS {
			commands = append(commands, fmt.Sprintf("modify qos %s set Description=%[1]s Flags=-1 %s", name,
				qosLimits(protocol.QOS{})))
		} else {
			commands = append(commands, fmt.Sprintf("modify account %s set qos-=%s", account, name))
		}
	}
	return add, commands
}

// setQOS has slurmdbd know the QOS of the cluster file.
func (d *driver) setQOS(ctx context.Context, account string, want []protocol.QOS) error {
	printed, err := d.run(ctx, "ask for QOS", "sacctmgr", "-nP", "show", "qos", "format=name,description")
	if err != nil {
		return err
	}
	add, commands := qosChanges(account, want, printed)
	if len(add) > 0 {
		if _, err := d.run(ctx, "add QOS", "sacctmgr", "-iQ", "add", "qos", strings.Join(add, ",")); err != nil {
			return err
		}
	}
	if len(commands) == 0 {
		return nil
	}
	if _, err := d.Files.Write(qosFile, []byte(strings.Join(commands, "\n")+"\n"), 0o600, ""); err != nil {
		return fmt.Errorf("write %s: %w", qosFile, err)
	}
	_, err = d.run(ctx, "set QOS", "sh", "-c", "exec sacctmgr -iQ <"+qosFile)
	return err
}
